#include "routing/even_rows.h"
#include "routing/loads.h"
#include "routing/shape.h"

namespace moeplan::routing {
namespace {

class Balanced final : public LoadSource {
 public:
  explicit Balanced(const StepShape& shape)
      : shape_(shape), rows_(tokens_of_microbatch(shape), shape.experts, shape.top_k) {
    // Expert e ends at floor((e + 1) total / E): counts differ by at most one, and so do contiguous groups of experts.
    const std::int64_t total = tokens_of_microbatch(shape) * shape.top_k;
    std::vector<std::int64_t> counts;
    for (std::int64_t e = 0; e < shape.experts; ++e) {
      counts.push_back((e + 1) * total / shape.experts - e * total / shape.experts);
    }
    rows_.add_row(counts);
  }

  const StepShape& shape() const override { return shape_; }
  void add_counts(const TokenSlice& slice, std::int64_t, std::span<std::int64_t> out) const override {
    rows_.add_counts(0, slice.begin * shape_.micro_batch_size, slice.end * shape_.micro_batch_size, out);
  }
  void pairs(const TokenSlice& slice, std::int64_t, std::vector<Pair>& out) const override {
    rows_.pairs(0, slice.begin * shape_.micro_batch_size, slice.end * shape_.micro_batch_size, out);
  }
  bool has_weights() const override { return false; }
  bool same_in_iteration() const override { return true; }
  Description describe() const override { return {"balanced", 0.0, {}}; }

 private:
  StepShape shape_;
  EvenRows rows_;
};

}  // namespace

std::unique_ptr<LoadSource> make_balanced(const StepShape& shape) {
  require_shape(shape);
  return std::make_unique<Balanced>(shape);
}

}  // namespace moeplan::routing
