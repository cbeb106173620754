#include <fmt/core.h>

#include <cmath>

#include "base/check.h"
#include "base/error.h"
#include "routing/even_rows.h"
#include "routing/loads.h"
#include "routing/shape.h"
#include "routing/shares.h"

namespace moeplan::routing {
namespace {

class Lognormal final : public LoadSource {
 public:
  Lognormal(const StepShape& shape, double sigma, std::uint64_t seed, std::int64_t draws)
      : shape_(shape),
        sigma_(sigma),
        seed_(seed),
        draws_(draws),
        rows_(tokens_of_microbatch(shape), shape.experts, shape.top_k) {
    for (std::int64_t layer = 0; layer < shape.moe_layers * draws; ++layer) {
      rows_.add_row(counts_of_inclusion(lognormal_inclusion(shape.experts, shape.top_k, sigma, seed, layer),
                                        tokens_of_microbatch(shape), shape.top_k));
    }
  }

  const StepShape& shape() const override { return shape_; }
  void add_counts(const TokenSlice& slice, std::int64_t layer, std::span<std::int64_t> out) const override {
    rows_.add_counts(row(slice, layer), slice.begin * shape_.micro_batch_size, slice.end * shape_.micro_batch_size,
                     out);
  }
  void pairs(const TokenSlice& slice, std::int64_t layer, std::vector<Pair>& out) const override {
    rows_.pairs(row(slice, layer), slice.begin * shape_.micro_batch_size, slice.end * shape_.micro_batch_size, out);
  }
  bool has_weights() const override { return false; }
  bool same_in_iteration() const override { return true; }
  Description describe() const override {
    return {fmt::format("log-normal sigma {}, seed {}", sigma_, seed_),
            0.0,
            {draws_ == 1
                 ? "the same shares in every microbatch and iteration"
                 : fmt::format("the same shares in every microbatch, {} draws for the iterations in turn", draws_)}};
  }

 private:
  // A draw's layers follow those of the draw before, so that the first draw is that of draws: 1.
  std::size_t row(const TokenSlice& slice, std::int64_t layer) const {
    MOEPLAN_CHECK(0 <= layer && layer < shape_.moe_layers, "no such MoE layer");
    return static_cast<std::size_t>(slice.iteration % draws_ * shape_.moe_layers + layer);
  }

  StepShape shape_;
  double sigma_;
  std::uint64_t seed_;
  std::int64_t draws_;
  EvenRows rows_;
};

}  // namespace

std::unique_ptr<LoadSource> make_lognormal(const StepShape& shape, double sigma, std::uint64_t seed,
                                           std::int64_t draws) {
  require_shape(shape);
  MOEPLAN_CHECK(draws >= 1, "draws of shares");
  if (!std::isfinite(sigma) || sigma < 0.0) {
    throw base::Error({"", 0, 0, "sigma"}, fmt::format("expected a finite number >= 0, got {}", sigma));
  }
  return std::make_unique<Lognormal>(shape, sigma, seed, draws);
}

}  // namespace moeplan::routing
