#include "grouped_product.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "fill.h"

namespace moeplan::device {
namespace {

std::size_t size(std::int64_t value) { return static_cast<std::size_t>(value); }
std::int64_t total_of(const GroupedShape& shape) {
  return std::accumulate(shape.rows.begin(), shape.rows.end(), std::int64_t{0});
}

// What every group's buffers are aligned to: they lie a whole number of rows behind the first one.
std::uint32_t alignment_of(const GroupedShape& shape) {
  const auto divides = [&](std::int64_t bytes) { return 2 * shape.n % bytes == 0 && 2 * shape.k % bytes == 0; };
  std::uint32_t alignment = 2;
  while (alignment < 256 && divides(2 * alignment)) alignment *= 2;
  return alignment;
}

// A group's own product in the terms of ProductShape.
ProductShape product_of(const GroupedShape& shape, std::int64_t rows) {
  if (shape.pass == Pass::wgrad) return {shape.n, shape.k, rows, Pass::wgrad, Type::bf16};
  return {rows, shape.n, shape.k, shape.pass, Type::bf16};
}

struct Pointers {
  const void *a, *b;
  void* c;
};
// LtProduct takes C = A B with A the input; of a weight gradient [n,k] it is A = dY [rows,n] and B = X [rows,k].
Pointers pointers_of(const GroupedShape& shape, const GroupedOperands& operands, std::size_t group) {
  if (shape.pass == Pass::wgrad) return {operands.other_of(group), operands.input_of(group), operands.weight_of(group)};
  return {operands.input_of(group), operands.weight_of(group), operands.other_of(group)};
}

#if CUBLAS_VERSION >= 120500
class OneCall : public GroupedProduct {
 public:
  OneCall(const GroupedShape& shape, const GroupedOperands& operands) : workspace_(kWorkspaceBytes) {
    MOEPLAN_CUBLAS(cublasCreate(&handle_));
    MOEPLAN_CUBLAS(cublasSetWorkspace(handle_, workspace_.data(), workspace_.bytes()));
    const bool wgrad = shape.pass == Pass::wgrad;
    out_ = wgrad ? CUDA_R_32F : CUDA_R_16BF;
    const int n = static_cast<int>(shape.n), k = static_cast<int>(shape.k);
    std::vector<const void*> a, b;
    std::vector<void*> c;
    for (std::size_t group = 0; group < shape.rows.size(); ++group) {
      const int rows = static_cast<int>(shape.rows[group]);
      if (rows == 0) continue;
      const Pointers pointers = pointers_of(shape, operands, group);
      // By columns, as in LtProduct: the second operand stands first.
      a.push_back(pointers.b);
      b.push_back(pointers.a);
      c.push_back(pointers.c);
      turned_a_.push_back(shape.pass == Pass::forward ? CUBLAS_OP_T : CUBLAS_OP_N);
      turned_b_.push_back(wgrad ? CUBLAS_OP_T : CUBLAS_OP_N);
      m_.push_back(wgrad ? k : n);
      n_.push_back(wgrad ? n : rows);
      k_.push_back(wgrad ? rows : k);
      lda_.push_back(shape.pass == Pass::dgrad ? n : k);
      ldb_.push_back(wgrad ? n : k);
      ldc_.push_back(wgrad ? k : n);
    }
    ones_.assign(a.size(), 1.0f);
    betas_.assign(a.size(), wgrad ? 1.0f : 0.0f);
    sizes_.assign(a.size(), 1);
    pointers_ = Buffer(3 * a.size() * sizeof(void*));
    std::vector<const void*> all(a);
    all.insert(all.end(), b.begin(), b.end());
    all.insert(all.end(), c.begin(), c.end());
    MOEPLAN_CUDA(cudaMemcpy(pointers_.data(), all.data(), all.size() * sizeof(void*), cudaMemcpyHostToDevice));
  }
  ~OneCall() override { cublasDestroy(handle_); }
  OneCall(const OneCall&) = delete;
  OneCall& operator=(const OneCall&) = delete;

  void run(cudaStream_t stream) const override {
    const std::size_t count = sizes_.size();
    const auto* lists = pointers_.as<const void*>();
    MOEPLAN_CUBLAS(cublasSetStream(handle_, stream));
    MOEPLAN_CUBLAS(cublasSetWorkspace(handle_, workspace_.data(), workspace_.bytes()));  // a new stream resets it
    MOEPLAN_CUBLAS(cublasGemmGroupedBatchedEx(
        handle_, turned_a_.data(), turned_b_.data(), m_.data(), n_.data(), k_.data(), ones_.data(), lists, CUDA_R_16BF,
        lda_.data(), lists + count, CUDA_R_16BF, ldb_.data(), betas_.data(), pointers_.as<void*>() + 2 * count, out_,
        ldc_.data(), static_cast<int>(count), sizes_.data(), CUBLAS_COMPUTE_32F));
  }
  std::string library() const override { return "cuBLAS grouped " + LtHandle::version(); }

 private:
  cublasHandle_t handle_ = nullptr;
  Buffer workspace_, pointers_;
  cudaDataType out_ = CUDA_R_16BF;
  std::vector<cublasOperation_t> turned_a_, turned_b_;
  std::vector<int> m_, n_, k_, lda_, ldb_, ldc_, sizes_;
  std::vector<float> ones_, betas_;
};
#endif

class ProductAGroup : public GroupedProduct {
 public:
  ProductAGroup(const LtHandle& handle, const GroupedShape& shape, const GroupedOperands& operands)
      : shape_(shape), operands_(operands) {
    for (Buffer& workspace : workspaces_) workspace = Buffer(kWorkspaceBytes);
    for (const std::int64_t rows : shape.rows) {
      if (rows > 0 && products_.find(rows) == products_.end())
        products_[rows] = std::make_unique<LtProduct>(handle, product_of(shape, rows), alignment_of(shape));
    }
  }
  void run(cudaStream_t stream) const override {
    begin_.record(stream);
    for (const Stream& side : streams_) MOEPLAN_CUDA(cudaStreamWaitEvent(side.get(), begin_.get(), 0));
    std::size_t next = 0;
    for (std::size_t group = 0; group < shape_.rows.size(); ++group) {
      if (shape_.rows[group] == 0) continue;
      const Pointers pointers = pointers_of(shape_, operands_, group);
      products_.at(shape_.rows[group])
          ->run(pointers.a, pointers.b, pointers.c, workspaces_[next], streams_[next].get());
      next = (next + 1) % kStreams;
    }
    for (std::size_t i = 0; i < kStreams; ++i) {
      ends_[i].record(streams_[i].get());
      MOEPLAN_CUDA(cudaStreamWaitEvent(stream, ends_[i].get(), 0));
    }
  }
  std::string library() const override { return "cublasLt a product a group " + LtHandle::version(); }

 private:
  static constexpr std::size_t kStreams = 4;
  GroupedShape shape_;
  const GroupedOperands& operands_;
  Buffer workspaces_[kStreams];
  Stream streams_[kStreams];
  Event begin_, ends_[kStreams];
  std::map<std::int64_t, std::unique_ptr<LtProduct>> products_;  // by rows
};

}  // namespace

GroupedOperands::GroupedOperands(const GroupedShape& shape, std::uint64_t seed, cudaStream_t stream)
    : n(shape.n), k(shape.k) {
  const bool wgrad = shape.pass == Pass::wgrad;
  std::int64_t first = 0;
  for (const std::int64_t rows : shape.rows) {
    first_rows.push_back(first);
    first += rows;
  }
  const std::size_t rows = size(total_of(shape));
  weight_stride = size(n) * size(k) * (wgrad ? 4 : 2);
  input = Buffer(rows * size(k) * 2);
  other = Buffer(rows * size(n) * 2);
  weights = Buffer(shape.rows.size() * weight_stride);
  fill_random(input.data(), rows * size(k), Element::bf16, 1, seed, stream);
  fill_random(other.data(), rows * size(n), Element::bf16, 1, seed + 1, stream);
  if (wgrad) {
    MOEPLAN_CUDA(cudaMemsetAsync(weights.data(), 0, weights.bytes(), stream));
  } else {
    fill_random(weights.data(), weights.bytes() / 2, Element::bf16, 0.02f, seed + 2, stream);
  }
}

const unsigned char* GroupedOperands::input_of(std::size_t group) const {
  return input.as<unsigned char>() + size(first_rows[group]) * size(k) * 2;
}
unsigned char* GroupedOperands::other_of(std::size_t group) const {
  return other.as<unsigned char>() + size(first_rows[group]) * size(n) * 2;
}
unsigned char* GroupedOperands::weight_of(std::size_t group) const {
  return weights.as<unsigned char>() + group * weight_stride;
}

std::unique_ptr<GroupedProduct> one_call(const GroupedShape& shape, const GroupedOperands& operands) {
#if CUBLAS_VERSION >= 120500
  return std::make_unique<OneCall>(shape, operands);
#else
  (void)shape, (void)operands;
  return nullptr;
#endif
}

std::unique_ptr<GroupedProduct> product_a_group(const LtHandle& handle, const GroupedShape& shape,
                                                const GroupedOperands& operands) {
  return std::make_unique<ProductAGroup>(handle, shape, operands);
}

double sampled_grouped_error(const GroupedShape& shape, const GroupedOperands& operands, std::uint64_t seed) {
  double worst = 0;
  for (std::size_t group = 0; group < shape.rows.size(); ++group) {
    if (shape.rows[group] == 0) continue;
    const Pointers pointers = pointers_of(shape, operands, group);
    const double error =
        sampled_error(product_of(shape, shape.rows[group]), pointers.a, pointers.b, pointers.c, 3, next_random(seed));
    if (!(error <= worst)) worst = error;  // NaN counts as the worst
  }
  return worst;
}

}  // namespace moeplan::device
