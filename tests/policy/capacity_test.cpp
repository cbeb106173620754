#include "policy/capacity.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "policy/lrmoe.h"
#include "policy/memfine.h"
#include "small_loads.h"

using namespace moeplan;
using namespace moeplan::policy;
using moeplan::policy::test::context_of;
using moeplan::policy::test::SkewedLoads;
using moeplan::policy::test::WrittenLoads;

namespace {

LayerDecision decide_with(const GroupContext& context, const std::vector<const Policy*>& policies) {
  return decide(context, policies);
}

routing::StepShape shape_of(std::int64_t positions, std::int64_t experts, std::int64_t top_k) {
  routing::StepShape shape;
  shape.seq_length = positions;
  shape.micro_batch_size = 1;
  shape.data_parallel = 1;
  shape.microbatches = 1;
  shape.moe_layers = 1;
  shape.experts = experts;
  shape.top_k = top_k;
  return shape;
}

routing::StepShape skewed_shape() {
  routing::StepShape shape = shape_of(120, 16, 4);
  shape.micro_batch_size = 2;
  shape.data_parallel = 4;
  return shape;
}

CapacitySettings settings_of(double factor, bool pad, CapacitySettings::DropPolicy drop) {
  CapacitySettings settings;
  settings.factor = factor;
  settings.pad = pad;
  settings.drop_policy = drop;
  return settings;
}
constexpr auto kProbs = CapacitySettings::DropPolicy::probs;
constexpr auto kPosition = CapacitySettings::DropPolicy::position;

// Top-1, two experts, one a member; each member holds four tokens. Member 0: experts 0 0 1 0; member 1: 0 0 0 0.
WrittenLoads written() {
  return WrittenLoads(
      shape_of(8, 2, 1),
      {{{0, 0.5f}}, {{0, 0.9f}}, {{1, 0.2f}}, {{0, 0.7f}}, {{0, 0.1f}}, {{0, 0.8f}}, {{0, 0.3f}}, {{0, 0.6f}}});
}
GroupContext two_slices(const routing::LoadSource& loads) {
  GroupContext context = context_of(loads, 1);
  context.sources = {{0, 0, 4}, {0, 4, 8}};
  return context;
}

}  // namespace

TEST_CASE("capacity is the mean rows of an expert times the factor, rounded up, at most the tokens") {
  CHECK(expert_capacity(1.0, 4096, 8, 128) == 256);  // 4096 * 8 / 128
  CHECK(expert_capacity(1.25, 4096, 8, 128) == 320);
  CHECK(expert_capacity(1.0, 10, 2, 3) == 7);    // 6.67
  CHECK(expert_capacity(1.5, 10, 2, 10) == 3);   // 2 * 1.5 exactly
  CHECK(expert_capacity(1.51, 10, 2, 10) == 4);  // 3.02
  CHECK(expert_capacity(1e6, 10, 2, 10) == 10);
}

TEST_CASE("each source drops its pairs above the capacity, the smallest weights first") {
  // C = ceil(1 * 1 * 4 / 2) = 2. Member 0 sends 3 to expert 0: 0.5 goes, 0.9 and 0.7 stay. Member 1 sends 4: 0.8 and
  // 0.6 stay.
  const WrittenLoads loads = written();
  const auto policy = make_capacity(settings_of(1.0, false, kProbs));
  const LayerDecision decision = decide_with(two_slices(loads), {policy.get()});
  CHECK(decision.forward_rows[0].matrix == std::vector<std::int32_t>{2, 1, 2, 0});
  CHECK(decision.forward_rows[0].instance_rows == std::vector<std::int64_t>{4, 1});
  CHECK(&decision.rows_of_backward() == &decision.forward_rows);
  CHECK(decision.dropped_rows == 3);
  CHECK(decision.routed_rows == 5);
  CHECK(decision.retained_rows == 5);
  CHECK(decision.padding_rows == 0);
  CHECK(decision.max_received == 4);
  CHECK_FALSE(decision.padded);
  CHECK(decision.backward == RoutedBackward::kept);
}

TEST_CASE("the policy that drops decides which chunk loses the rows") {
  // Two chunks a source: positions {0, 1}, {2, 3} and {4, 5}, {6, 7}. By weight member 0 keeps tokens 1 and 3 of expert
  // 0, member 1 tokens 5 and 7; by position tokens 0, 1 and 4, 5.
  const WrittenLoads loads = written();
  MemfineSettings chunked;
  chunked.rule = MemfineSettings::Rule::fixed;
  chunked.chunks = 2;
  const auto memfine = make_memfine(chunked, 0);
  const auto probs = make_capacity(settings_of(1.0, false, kProbs));
  const LayerDecision by_weight = decide_with(two_slices(loads), {probs.get(), memfine.get()});
  REQUIRE(by_weight.forward_rows.size() == 2);
  CHECK(by_weight.forward_rows[0].matrix == std::vector<std::int32_t>{1, 0, 1, 0});
  CHECK(by_weight.forward_rows[1].matrix == std::vector<std::int32_t>{1, 1, 1, 0});
  const auto position = make_capacity(settings_of(1.0, false, kPosition));
  const LayerDecision by_position = decide_with(two_slices(loads), {position.get(), memfine.get()});
  CHECK(by_position.forward_rows[0].matrix == std::vector<std::int32_t>{2, 0, 2, 0});
  CHECK(by_position.forward_rows[1].matrix == std::vector<std::int32_t>{0, 1, 0, 0});
}

TEST_CASE("equal weights drop the later tokens") {
  const WrittenLoads loads(shape_of(4, 2, 1), {{{0, 0.5f}}, {{0, 0.5f}}, {{0, 0.5f}}, {{0, 0.5f}}});
  MemfineSettings chunked;
  chunked.rule = MemfineSettings::Rule::fixed;
  chunked.chunks = 4;
  const auto memfine = make_memfine(chunked, 0);
  const auto policy = make_capacity(settings_of(1.0, false, kProbs));
  const LayerDecision decision = decide_with(context_of(loads, 1), {policy.get(), memfine.get()});
  std::vector<std::int64_t> rows;
  for (const RoutedRows& chunk : decision.forward_rows) rows.push_back(chunk.total());
  CHECK(rows == std::vector<std::int64_t>{1, 1, 0, 0});  // C = ceil(4 / 2) = 2
}

TEST_CASE("padding fixes the rows at the capacity of every source and expert") {
  const WrittenLoads loads = written();
  const auto policy = make_capacity(settings_of(1.0, true, kProbs));
  const LayerDecision decision = decide_with(two_slices(loads), {policy.get()});
  CHECK(decision.forward_rows[0].matrix == std::vector<std::int32_t>{2, 2, 2, 2});
  CHECK(decision.padded);
  CHECK(decision.routed_rows == 5);
  CHECK(decision.padding_rows == 3);  // 8 rows of which 5 hold a pair
  CHECK(decision.dropped_rows == 3);
  // Three tokens: C = ceil(1.5) = 2, over two chunks 1 + 1; with three rows (factor 2: C = 3) 1 + 2.
  MemfineSettings chunked;
  chunked.rule = MemfineSettings::Rule::fixed;
  chunked.chunks = 2;
  const auto memfine = make_memfine(chunked, 0);
  GroupContext context = context_of(loads, 1);
  context.sources = {{0, 0, 3}};
  const auto wide = make_capacity(settings_of(2.0, true, kProbs));
  const LayerDecision cut = decide_with(context, {wide.get(), memfine.get()});
  CHECK(cut.forward_rows[0].instance_rows == std::vector<std::int64_t>{1, 1});
  CHECK(cut.forward_rows[1].instance_rows == std::vector<std::int64_t>{2, 2});
}

TEST_CASE("a capacity that holds everything changes nothing") {
  const SkewedLoads loads(skewed_shape(), 2, 5);
  const GroupContext context = context_of(loads, 4);
  const auto policy = make_capacity(settings_of(16.0, false, kProbs));
  const LayerDecision with = decide_with(context, {policy.get()}), without = decide(context, {});
  CHECK(with.forward_rows[0].matrix == without.forward_rows[0].matrix);
  CHECK(with.dropped_rows == 0);
  CHECK(with.max_received == without.max_received);
}

TEST_CASE("dropped and routed rows are all pairs, and no source and expert is above the capacity") {
  for (int skew = 1; skew <= 3; ++skew) {
    const SkewedLoads loads(skewed_shape(), skew, 11, skew == 2 ? 4 : 0);
    GroupContext context = context_of(loads, 4);
    context.sources[1].begin = 50;
    const std::vector<std::int64_t> counts = chunk_counts(context, 0, 1);
    for (const double factor : {0.5, 1.0, 1.7}) {
      for (const auto drop : {kProbs, kPosition}) {
        const auto policy = make_capacity(settings_of(factor, false, drop));
        const LayerDecision decision = decide_with(context, {policy.get()});
        std::vector<std::int64_t> expected = counts;
        for (std::int64_t member = 0; member < 4; ++member) {
          const auto& source = context.sources[static_cast<std::size_t>(member)];
          const std::int64_t capacity = expert_capacity(factor, (source.end - source.begin) * 2, 4, 16);
          for (std::int64_t e = 0; e < 16; ++e) {
            auto& rows = expected[static_cast<std::size_t>(member * 16 + e)];
            rows = std::min(rows, capacity);
          }
        }
        REQUIRE(decision.forward_rows[0].matrix == place_at_home(expected, 4, 16).matrix);
        REQUIRE(decision.routed_rows + decision.dropped_rows ==
                static_cast<double>(std::accumulate(counts.begin(), counts.end(), std::int64_t{0})));
        // Chunks and LRMoE's selection see the same pairs.
        MemfineSettings chunked;
        chunked.rule = MemfineSettings::Rule::fixed;
        chunked.chunks = 3;
        LrmoeSettings lrmoe_settings;
        lrmoe_settings.tau = 0.9;
        lrmoe_settings.min_rows = 8;
        const auto memfine = make_memfine(chunked, 0);
        const auto lrmoe = make_lrmoe(lrmoe_settings, kNoMemoryLimit);
        const LayerDecision all = decide_with(context, {policy.get(), memfine.get(), lrmoe.get()});
        std::vector<std::int32_t> matrix(16, 0);
        for (std::size_t chunk = 0; chunk < 3; ++chunk) {
          for (std::size_t i = 0; i < 16; ++i) {
            matrix[i] += all.forward_rows[chunk].matrix[i];
            REQUIRE(all.backward_rows[chunk].matrix[i] <= all.forward_rows[chunk].matrix[i]);
          }
        }
        REQUIRE(matrix == decision.forward_rows[0].matrix);
        REQUIRE(all.routed_rows == decision.routed_rows);
        REQUIRE(all.retained_rows <= all.routed_rows);
        REQUIRE(all.dropped_rows == decision.dropped_rows);
      }
    }
  }
}

TEST_CASE("padded rows are of forward alone where backward selects pairs") {
  const SkewedLoads loads(skewed_shape(), 3, 8);
  const GroupContext context = context_of(loads, 4);
  LrmoeSettings settings;
  settings.tau = 100;
  const auto padded = make_capacity(settings_of(1.0, true, kProbs)),
             bare = make_capacity(settings_of(1.0, false, kProbs));
  const auto lrmoe = make_lrmoe(settings, kNoMemoryLimit);
  const LayerDecision decision = decide_with(context, {padded.get(), lrmoe.get()});
  // C = ceil(4 * 240 / 16) = 60 from each of 4 sources to 16 experts.
  CHECK(decision.forward_rows[0].total() == 60 * 4 * 16);
  CHECK(decision.backward_rows[0].matrix == decide_with(context, {bare.get()}).forward_rows[0].matrix);
}
