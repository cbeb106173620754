#include "layer_products.h"

#include <algorithm>

#include "lt_product.h"

namespace moeplan::device {
namespace {

BlasCall call_of(const LayerProducts::Product& p) { return blas_call(p.pass, p.rows, p.n, p.k); }
cudaDataType type_of(const LayerProducts::Product& p) { return p.wide ? CUDA_R_32F : CUDA_R_16BF; }

}  // namespace

LayerProducts::LayerProducts(cudaStream_t stream, std::int64_t experts, bool together)
    : stream_(stream),
      workspace_(kWorkspaceBytes),
      experts_(experts),
      together_(together && CUBLAS_VERSION >= 120500),
      staging_(static_cast<std::size_t>(kSlots * experts * 3) * sizeof(void*)),
      pointers_(staging_.bytes()) {
  MOEPLAN_CUBLAS(cublasSetStream(handle_.get(), stream_));
  // A new stream resets it.
  MOEPLAN_CUBLAS(cublasSetWorkspace(handle_.get(), workspace_.data(), workspace_.bytes()));
}

std::string LayerProducts::library() const {
  if (!together_) return "cuBLAS a product an expert " + LtHandle::version();
  return "cuBLAS grouped " + LtHandle::version() + (wgrad_together_ ? "" : ", weight gradients a product an expert");
}

void LayerProducts::run(const Product& product) {
  const BlasCall c = call_of(product);
  const float one = 1, beta = product.adds ? 1.0f : 0.0f;
  MOEPLAN_CUBLAS(cublasGemmEx(handle_.get(), c.turn_first, c.turn_second, c.m, c.n, c.k, &one, product.right,
                              CUDA_R_16BF, c.ld_first, product.left, CUDA_R_16BF, c.ld_second, &beta, product.out,
                              type_of(product), c.ld_out, CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT));
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
  const std::size_t count = products.size();
  GroupedCall call;
  for (const Product& p : products) call.add(call_of(p));
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
  const cublasStatus_t status = call.run(handle_.get(), there, type_of(products[0]), products[0].adds);
  const bool wgrad = products[0].pass == kernels::Pass::wgrad;
  if (status == CUBLAS_STATUS_NOT_SUPPORTED || (wgrad && status == CUBLAS_STATUS_INVALID_VALUE)) {
    (wgrad ? wgrad_together_ : together_) = false;
    return false;
  }
  MOEPLAN_CUBLAS(status);
  return true;
}

}  // namespace moeplan::device
