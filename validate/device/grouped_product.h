#pragma once
#include <memory>
#include <string>
#include <vector>

#include "lt_product.h"
#include "resources.h"
#include "shapes.h"

// The products of all experts of a layer on this GPU, one after another in memory.
namespace moeplan::device {

// Rows of all groups lie packed: forward X [rows,k], weights [group][n,k], Y [rows,n]; dgrad dY [rows,k], weights
// [group][k,n], dX [rows,n]; wgrad X [rows,k], dY [rows,n] and fp32 gradients [group][n,k], added to. Groups without
// rows have no product.
struct GroupedOperands {
  GroupedOperands(const GroupedShape& shape, std::uint64_t seed, cudaStream_t stream);
  const unsigned char* input_of(std::size_t group) const;
  unsigned char* other_of(std::size_t group) const;   // wgrad: dY; else the result
  unsigned char* weight_of(std::size_t group) const;  // wgrad: the gradient

  std::vector<std::int64_t> first_rows;  // of each group
  std::int64_t n, k;
  std::size_t weight_stride;
  Buffer input, other, weights;
};

// Runs on the set round % sets of several, so that no run finds its operands in a cache.
class GroupedProduct {
 public:
  virtual ~GroupedProduct() = default;
  virtual void run(cudaStream_t stream, std::int64_t round) const = 0;
  virtual std::string library() const = 0;
};

// One call for all groups (cublasGemmGroupedBatchedEx, from cuBLAS 12.5 on). Null where the library is older. `sets`
// must outlive the product; `stream` takes what is copied to the device first.
std::unique_ptr<GroupedProduct> one_call(const GroupedShape& shape, const std::vector<GroupedOperands>& sets,
                                         cudaStream_t stream);
// One product a group on four streams, as Transformer Engine issues them.
std::unique_ptr<GroupedProduct> product_a_group(const LtHandle& handle, const GroupedShape& shape,
                                                const std::vector<GroupedOperands>& sets);

// As sampled_error, over some groups.
double sampled_grouped_error(const GroupedShape& shape, const GroupedOperands& operands, std::uint64_t seed);

}  // namespace moeplan::device
