#include "policy/memfine.h"

#include <doctest/doctest.h>

#include <limits>

#include "policy/policies.h"
#include "small_loads.h"

using namespace moeplan;
using namespace moeplan::policy;
using moeplan::policy::test::context_of;
using moeplan::policy::test::SkewedLoads;

namespace {

const std::vector<std::int64_t> kBins = {1, 2, 4, 8};

routing::StepShape small_shape(std::int64_t seq_length) {
  routing::StepShape shape;
  shape.seq_length = seq_length;
  shape.micro_batch_size = 1;
  shape.data_parallel = 4;
  shape.microbatches = 1;
  shape.moe_layers = 1;
  shape.experts = 16;
  shape.top_k = 4;
  return shape;
}

LayerDecision decide_with(const Policy& policy, const GroupContext& context) {
  const std::vector<const Policy*> policies = {&policy};
  return decide(context, policies);
}

std::unique_ptr<Policy> fixed(std::int64_t chunks) {
  MemfineSettings settings;
  settings.rule = MemfineSettings::Rule::fixed;
  settings.chunks = chunks;
  return make_memfine(settings, 0);
}

}  // namespace

TEST_CASE("the adaptive rule takes the smallest bin that holds ceil(rows / budget)") {
  CHECK(adaptive_chunks(0, 100, kBins) == 1);
  CHECK(adaptive_chunks(100, 100, kBins) == 1);
  CHECK(adaptive_chunks(101, 100, kBins) == 2);
  CHECK(adaptive_chunks(200, 100, kBins) == 2);
  CHECK(adaptive_chunks(201, 100, kBins) == 4);  // 3 is no bin
  CHECK(adaptive_chunks(400, 100, kBins) == 4);
  CHECK(adaptive_chunks(401, 100, kBins) == 8);
  CHECK(adaptive_chunks(800, 100, kBins) == 8);
}

TEST_CASE("the adaptive rule takes the largest bin when none is enough or nothing fits") {
  CHECK(adaptive_chunks(801, 100, kBins) == 8);
  CHECK(adaptive_chunks(1e300, 1e-300, kBins) == 8);
  CHECK(adaptive_chunks(1, 0, kBins) == 8);
  CHECK(adaptive_chunks(0, 0, kBins) == 8);
}

TEST_CASE("bins need not start at one") {
  const std::vector<std::int64_t> bins = {2, 3};
  CHECK(adaptive_chunks(50, 100, bins) == 2);
  CHECK(adaptive_chunks(201, 100, bins) == 3);
}

TEST_CASE("a fixed count cuts every source and keeps all rows") {
  const SkewedLoads loads(small_shape(64), 3, 9);
  const GroupContext context = context_of(loads, 4);
  const LayerDecision whole = decide(context, {});
  for (const std::int64_t chunks : {1, 2, 3, 8, 64}) {
    const LayerDecision decision = decide_with(*fixed(chunks), context);
    CHECK(decision.chunks == chunks);
    CHECK(decision.backward == RoutedBackward::recompute);
    CHECK(decision.layer_notify);
    CHECK(decision.backward_rows.empty());
    REQUIRE(decision.forward_rows.size() == static_cast<std::size_t>(chunks));
    std::vector<std::int32_t> matrix(16, 0);
    std::vector<std::int64_t> instances(16, 0);
    for (const RoutedRows& rows : decision.forward_rows) {
      for (std::size_t i = 0; i < matrix.size(); ++i) matrix[i] += rows.matrix[i];
      for (std::size_t i = 0; i < instances.size(); ++i) instances[i] += rows.instance_rows[i];
    }
    CHECK(matrix == whole.forward_rows[0].matrix);
    CHECK(instances == whole.forward_rows[0].instance_rows);
    CHECK(decision.max_received == whole.max_received);  // of the whole layer, not of a chunk
    CHECK(decision.retained_rows == whole.routed_rows);
  }
}

TEST_CASE("a count above the positions of the shortest source is lowered to it") {
  const SkewedLoads loads(small_shape(64), 3, 9);
  GroupContext context = context_of(loads, 4);
  CHECK(decide_with(*fixed(65), context).chunks == 64);
  context.sources[1].begin = 59;
  CHECK(decide_with(*fixed(8), context).chunks == 5);
  CHECK(decide_with(*fixed(5), context).chunks == 5);
  CHECK(decide_with(*fixed(4), context).chunks == 4);
}

TEST_CASE("the adaptive rule looks at the member with the most rows of the whole layer") {
  const SkewedLoads loads(small_shape(64), 3, 9);
  const GroupContext context = context_of(loads, 4);
  const double most = decide(context, {}).max_received;
  REQUIRE(most > 64 * 4);  // above the mean: the routing is skewed
  MemfineSettings settings;
  CHECK(decide_with(*make_memfine(settings, most), context).chunks == 1);
  CHECK(decide_with(*make_memfine(settings, most - 1), context).chunks == 2);
  CHECK(decide_with(*make_memfine(settings, most / 2), context).chunks == 2);
  CHECK(decide_with(*make_memfine(settings, most / 2 - 1), context).chunks == 4);
  CHECK(decide_with(*make_memfine(settings, 0), context).chunks == 8);
  settings.bins = {1, 3};
  CHECK(decide_with(*make_memfine(settings, most / 2), context).chunks == 3);
}

TEST_CASE("one chunk gives the rows of the baseline") {
  const SkewedLoads loads(small_shape(64), 3, 9);
  const GroupContext context = context_of(loads, 4);
  const LayerDecision decision = decide_with(*fixed(1), context);
  const LayerDecision baseline = decide(context, {});
  CHECK(decision.forward_rows[0].matrix == baseline.forward_rows[0].matrix);
  CHECK(decision.forward_rows[0].instance_rows == baseline.forward_rows[0].instance_rows);
}

TEST_CASE("the table names the policies in the order of application") {
  std::vector<std::string> names;
  for (const PolicyEntry& entry : policy_table()) {
    names.push_back(entry.name);
    CHECK(entry.description.find('\n') == std::string::npos);
    CHECK(entry.description.size() > 20);
  }
  CHECK(names == std::vector<std::string>{"none", "recompute-moe", "capacity", "memfine", "lrmoe"});
  CHECK(fixed(1)->name() == "memfine");
}
