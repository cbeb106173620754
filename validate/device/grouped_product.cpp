#include "grouped_product.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "difference.h"
#include "fill.h"
#include "grouped_call.h"

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
  OneCall(const GroupedShape& shape, const std::vector<GroupedOperands>& sets, cudaStream_t stream)
      : workspace_(kWorkspaceBytes), wgrad_(shape.pass == Pass::wgrad), sets_(sets.size()) {
    // Of a gradient of the input the weights are [k, n] here.
    const bool turned = shape.pass == Pass::dgrad;
    for (const std::int64_t rows : shape.rows)
      if (rows > 0) call_.add(blas_call(shape.pass, rows, turned ? shape.k : shape.n, turned ? shape.n : shape.k));
    std::vector<const void*> lists;
    for (const GroupedOperands& operands : sets) {
      for (const int list : {0, 1, 2}) {
        for (std::size_t group = 0; group < shape.rows.size(); ++group) {
          if (shape.rows[group] == 0) continue;
          const Pointers pointers = pointers_of(shape, operands, group);
          lists.push_back(list == 0 ? pointers.b : list == 1 ? pointers.a : pointers.c);
        }
      }
    }
    pointers_ = Buffer(lists.size() * sizeof(void*));
    copy_to_device(pointers_.data(), lists.data(), pointers_.bytes(), stream);
  }

  void run(cudaStream_t stream, std::int64_t round) const override {
    const std::size_t set = size(round) % sets_;
    MOEPLAN_CUBLAS(cublasSetStream(handle_.get(), stream));
    // A new stream resets the workspace.
    MOEPLAN_CUBLAS(cublasSetWorkspace(handle_.get(), workspace_.data(), workspace_.bytes()));
    MOEPLAN_CUBLAS(call_.run(handle_.get(), pointers_.as<const void*>() + 3 * call_.size() * set,
                             wgrad_ ? CUDA_R_32F : CUDA_R_16BF, wgrad_));
  }
  std::string library() const override { return "cuBLAS grouped " + LtHandle::version(); }

 private:
  CublasHandle handle_;
  Buffer workspace_, pointers_;
  GroupedCall call_;
  bool wgrad_;
  std::size_t sets_;
};
#endif

class ProductAGroup : public GroupedProduct {
 public:
  ProductAGroup(const LtHandle& handle, const GroupedShape& shape, const std::vector<GroupedOperands>& sets)
      : shape_(shape), sets_(sets) {
    for (Buffer& workspace : workspaces_) workspace = Buffer(kWorkspaceBytes);
    for (const std::int64_t rows : shape.rows) {
      if (rows > 0 && products_.find(rows) == products_.end())
        products_[rows] = std::make_unique<LtProduct>(handle, product_of(shape, rows), alignment_of(shape));
    }
  }
  void run(cudaStream_t stream, std::int64_t round) const override {
    const GroupedOperands& operands = sets_[size(round) % sets_.size()];
    begin_.record(stream);
    for (const Stream& side : streams_) MOEPLAN_CUDA(cudaStreamWaitEvent(side.get(), begin_.get(), 0));
    std::size_t next = 0;
    for (std::size_t group = 0; group < shape_.rows.size(); ++group) {
      if (shape_.rows[group] == 0) continue;
      const Pointers pointers = pointers_of(shape_, operands, group);
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
  const std::vector<GroupedOperands>& sets_;
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

std::unique_ptr<GroupedProduct> one_call(const GroupedShape& shape, const std::vector<GroupedOperands>& sets,
                                         cudaStream_t stream) {
#if CUBLAS_VERSION >= 120500
  return std::make_unique<OneCall>(shape, sets, stream);
#else
  (void)shape, (void)sets, (void)stream;
  return nullptr;
#endif
}

std::unique_ptr<GroupedProduct> product_a_group(const LtHandle& handle, const GroupedShape& shape,
                                                const std::vector<GroupedOperands>& sets) {
  return std::make_unique<ProductAGroup>(handle, shape, sets);
}

double sampled_grouped_error(const GroupedShape& shape, const GroupedOperands& operands, std::uint64_t seed) {
  double worst = 0;
  for (std::size_t group = 0; group < shape.rows.size(); ++group) {
    if (shape.rows[group] == 0) continue;
    const Pointers pointers = pointers_of(shape, operands, group);
    worst = worse(worst, sampled_error(product_of(shape, shape.rows[group]), pointers.a, pointers.b, pointers.c, 3,
                                       next_random(seed)));
  }
  return worst;
}

}  // namespace moeplan::device
