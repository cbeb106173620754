#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "base/random.h"
#include "policy/decision.h"
#include "routing/loads.h"

// Load sources of the policy tests: small, deterministic and independent of the library's own.
namespace moeplan::policy::test {

// Counts follow from the pairs, so the two always agree.
class PairLoads : public routing::LoadSource {
 public:
  explicit PairLoads(const routing::StepShape& shape) : shape_(shape) {}
  const routing::StepShape& shape() const override { return shape_; }
  void add_counts(const routing::TokenSlice& slice, std::int64_t layer, std::span<std::int64_t> out) const override {
    std::vector<routing::Pair> list;
    pairs(slice, layer, list);
    for (const routing::Pair& pair : list) ++out[pair.expert];
  }
  bool has_weights() const override { return true; }
  Description describe() const override { return {"test", 0, {}}; }

 private:
  routing::StepShape shape_;
};

// Every token draws top_k distinct experts, low numbers far more often (skew 1: uniform; 3: expert of u^3), with random
// weights; with levels > 0, of so few different values that many pairs tie.
class SkewedLoads : public PairLoads {
 public:
  SkewedLoads(const routing::StepShape& shape, int skew, std::uint64_t seed, int levels = 0)
      : PairLoads(shape), skew_(skew), levels_(levels), random_(seed) {}
  void pairs(const routing::TokenSlice& slice, std::int64_t layer, std::vector<routing::Pair>& out) const override {
    const std::int64_t per_position = shape().micro_batch_size;
    for (std::int64_t token = slice.begin * per_position; token < slice.end * per_position; ++token) {
      const auto stream =
          static_cast<std::uint64_t>(((slice.iteration * 64 + slice.microbatch) * 64 + layer) * 1024 + slice.replica);
      std::vector<std::uint16_t> chosen;
      for (std::uint64_t draw = 0; static_cast<std::int64_t>(chosen.size()) < shape().top_k; ++draw) {
        double u = random_.uniform(stream, static_cast<std::uint64_t>(token) * 4096 + draw);
        const double first = u;
        for (int i = 1; i < skew_; ++i) u *= first;
        const auto expert = static_cast<std::uint16_t>(u * static_cast<double>(shape().experts));
        if (std::find(chosen.begin(), chosen.end(), expert) != chosen.end()) continue;
        chosen.push_back(expert);
        double weight = random_.uniform(stream + 7, static_cast<std::uint64_t>(token) * 4096 + draw);
        if (levels_ > 0) weight = std::ceil(weight * levels_) / levels_;
        out.push_back(
            {static_cast<std::int32_t>(token - slice.begin * per_position), expert, static_cast<float>(weight)});
      }
    }
  }

 private:
  int skew_, levels_;
  base::Random random_;
};

// One sample, one layer: the pairs of each position are written out; the same in every step and replica.
class WrittenLoads : public PairLoads {
 public:
  WrittenLoads(const routing::StepShape& shape, std::vector<std::vector<std::pair<int, float>>> positions)
      : PairLoads(shape), positions_(std::move(positions)) {}
  void pairs(const routing::TokenSlice& slice, std::int64_t, std::vector<routing::Pair>& out) const override {
    for (std::int64_t position = slice.begin; position < slice.end; ++position) {
      for (const auto& [expert, weight] : positions_[static_cast<std::size_t>(position)])
        out.push_back({static_cast<std::int32_t>(position - slice.begin), static_cast<std::uint16_t>(expert), weight});
    }
  }

 private:
  std::vector<std::vector<std::pair<int, float>>> positions_;
};

// `members` sources, each a replica of its own with the whole sequence.
inline GroupContext context_of(const routing::LoadSource& loads, std::int64_t members) {
  GroupContext context;
  context.loads = &loads;
  context.experts = loads.shape().experts;
  context.top_k = loads.shape().top_k;
  for (std::int64_t member = 0; member < members; ++member)
    context.sources.push_back({member, 0, loads.shape().seq_length});
  return context;
}

}  // namespace moeplan::policy::test
