#include "layer_products.h"

#include <algorithm>

#include "lt_product.h"

namespace moeplan::device {
namespace {

// By columns a row-major matrix is its transpose, so that the second operand stands first.
struct Call {
  cublasOperation_t turn_first, turn_second;
  int m, n, k, ld_first, ld_second, ld_out;
};
Call call_of(const LayerProducts::Product& p) {
  const int rows = static_cast<int>(p.rows), n = static_cast<int>(p.n), k = static_cast<int>(p.k);
  if (p.pass == kernels::Pass::forward) return {CUBLAS_OP_T, CUBLAS_OP_N, n, rows, k, k, k, n};
  if (p.pass == kernels::Pass::dgrad) return {CUBLAS_OP_N, CUBLAS_OP_N, k, rows, n, k, n, k};
  return {CUBLAS_OP_N, CUBLAS_OP_T, k, n, rows, k, n, k};
}
cudaDataType type_of(const LayerProducts::Product& p) { return p.wide ? CUDA_R_32F : CUDA_R_16BF; }

}  // namespace

LayerProducts::LayerProducts(cudaStream_t stream, std::int64_t experts, bool together)
    : stream_(stream),
      workspace_(kWorkspaceBytes),
      experts_(experts),
      together_(together && CUBLAS_VERSION >= 120500),
      staging_(static_cast<std::size_t>(kSlots * experts * 3) * sizeof(void*)),
      pointers_(staging_.bytes()) {
  MOEPLAN_CUBLAS(cublasCreate(&handle_));
  MOEPLAN_CUBLAS(cublasSetStream(handle_, stream_));
  MOEPLAN_CUBLAS(cublasSetWorkspace(handle_, workspace_.data(), workspace_.bytes()));  // a new stream resets it
}

LayerProducts::~LayerProducts() { cublasDestroy(handle_); }

std::string LayerProducts::library() const {
  if (!together_) return "cuBLAS a product an expert " + LtHandle::version();
  return "cuBLAS grouped " + LtHandle::version() + (wgrad_together_ ? "" : ", weight gradients a product an expert");
}

void LayerProducts::run(const Product& product) {
  const Call c = call_of(product);
  const float one = 1, beta = product.adds ? 1.0f : 0.0f;
  MOEPLAN_CUBLAS(cublasGemmEx(handle_, c.turn_first, c.turn_second, c.m, c.n, c.k, &one, product.right, CUDA_R_16BF,
                              c.ld_first, product.left, CUDA_R_16BF, c.ld_second, &beta, product.out, type_of(product),
                              c.ld_out, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
}

void LayerProducts::run_grouped(const Product& all, const std::vector<std::int64_t>& offsets) {
  const bool wgrad = all.pass == kernels::Pass::wgrad;
  std::vector<Product> products;
  for (std::size_t e = 0; e + 1 < offsets.size(); ++e) {
    Product p = all;
    p.rows = offsets[e + 1] - offsets[e];
    if (p.rows == 0) continue;
    const std::int64_t weight = static_cast<std::int64_t>(e) * p.n * p.k;
    p.left += offsets[e] * (p.pass == kernels::Pass::forward ? p.k : p.n);
    p.right += wgrad ? offsets[e] * p.k : weight;
    const std::int64_t out = wgrad ? weight : offsets[e] * (p.pass == kernels::Pass::forward ? p.n : p.k);
    p.out = static_cast<unsigned char*>(p.out) + out * (p.wide ? 4 : 2);
    products.push_back(p);
  }
  if (products.empty()) return;
  if (together_ && (!wgrad || wgrad_together_) && run_together(products)) return;
  for (const Product& p : products) run(p);
}

// False where the library has no grouped product of these types.
bool LayerProducts::run_together(const std::vector<Product>& products) {
#if CUBLAS_VERSION >= 120500
  const std::size_t count = products.size();
  std::vector<cublasOperation_t> turn_first, turn_second;
  std::vector<int> m, n, k, ld_first, ld_second, ld_out;
  for (const Product& p : products) {
    const Call c = call_of(p);
    turn_first.push_back(c.turn_first);
    turn_second.push_back(c.turn_second);
    m.push_back(c.m);
    n.push_back(c.n);
    k.push_back(c.k);
    ld_first.push_back(c.ld_first);
    ld_second.push_back(c.ld_second);
    ld_out.push_back(c.ld_out);
  }
  const std::vector<float> ones(count, 1.0f), betas(count, products[0].adds ? 1.0f : 0.0f);
  const std::vector<int> sizes(count, 1);
  if (slot_ == kSlots) {  // the copies of the first calls are done
    MOEPLAN_CUDA(cudaStreamSynchronize(stream_));
    slot_ = 0;
  }
  const std::size_t first = static_cast<std::size_t>(slot_++ * experts_ * 3);
  auto* staged = static_cast<const void**>(staging_.data()) + first;
  for (std::size_t i = 0; i < count; ++i) {
    staged[i] = products[i].right;
    staged[count + i] = products[i].left;
    staged[2 * count + i] = products[i].out;
  }
  auto* there = pointers_.as<const void*>() + first;
  MOEPLAN_CUDA(cudaMemcpyAsync(there, staged, 3 * count * sizeof(void*), cudaMemcpyHostToDevice, stream_));
  const cublasStatus_t status = cublasGemmGroupedBatchedEx(
      handle_, turn_first.data(), turn_second.data(), m.data(), n.data(), k.data(), ones.data(), there, CUDA_R_16BF,
      ld_first.data(), there + count, CUDA_R_16BF, ld_second.data(), betas.data(),
      const_cast<void* const*>(there + 2 * count), type_of(products[0]), ld_out.data(), static_cast<int>(count),
      sizes.data(), CUBLAS_COMPUTE_32F);
  const bool wgrad = products[0].pass == kernels::Pass::wgrad;
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || (wgrad && status == CUBLAS_STATUS_INVALID_VALUE)) {
    (wgrad ? wgrad_together_ : together_) = false;
    return false;
  }
  MOEPLAN_CUBLAS(status);
  return true;
#else
  (void)products;
  return false;
#endif
}

}  // namespace moeplan::device
