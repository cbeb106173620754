#include "engine/exchanges.h"

#include <doctest/doctest.h>

#include "cost/collectives.h"
#include "support/scenarios.h"
#include "topology/layout.h"

using namespace moeplan;
using moeplan::test::Small;

TEST_CASE("exchanges of a step: four kinds, each as often as layers, microbatches and groups have it") {
  Small small;  // 4 GPUs, EP 2: two groups; 8 sequences over 4 replicas: 2 microbatches
  const auto scenario = small.make();
  const auto plan = plan::make_plan(scenario, 0, 1);
  const auto kinds = engine::exchange_kinds(plan);
  REQUIRE(kinds.size() == 4);
  // Balanced: one folded group stands for both.
  const std::int64_t groups = plan.fold / scenario->layout.ep;
  for (const auto& kind : kinds) {
    CAPTURE(kind.name);
    CHECK(kind.count == scenario->model.moe_layer_count() * 2 * std::max<std::int64_t>(groups, 1));
    std::int64_t bounds = 0;
    for (const auto& bound : kind.bounds) bounds += bound.count;
    CHECK(bounds == kind.count);
    CHECK(kind.mean_s <= kind.worst_s);
  }
  CHECK(kinds[0].name == "dispatch");
  CHECK(kinds[1].name == "combine");
}

TEST_CASE("the binding resource of an exchange is the cost model's, on the bytes of the plan") {
  const auto scenario = Small{}.make();
  const auto plan = plan::make_plan(scenario, 0, 1);
  const auto kinds = engine::exchange_kinds(plan);
  for (const plan::Visit& visit : plan.program_of(0).visits) {
    for (const plan::Op& op : plan::ops_of(plan.blocks[static_cast<std::size_t>(visit.block)], visit.direction)) {
      if (op.work != plan::Work::all_to_all || op.name != "dispatch") continue;
      const auto ranks = topology::group_members(scenario->layout, op.group, 0);
      std::vector<std::int64_t> matrix;
      engine::exchange_matrix(plan, op, visit, 0, ranks.size(), matrix);
      // Balanced rows of a microbatch: 256 tokens of top-k copies, half of them to each of the two ranks.
      CHECK(matrix[1] == 256 * scenario->model.moe.top_k / 2 * op.size.bytes_per_row);
      const auto time = cost::all_to_all_time(matrix, ranks, plan.cluster, scenario->hardware);
      CHECK(time.binding.starts_with(kinds[0].bounds[0].resource));
      CHECK(kinds[0].worst_s == time.total_s);
      CHECK(kinds[0].bounds[0].slack_s == doctest::Approx(time.slack_s));
      return;
    }
  }
  FAIL("no dispatch in the program");
}

TEST_CASE("without expert parallelism nothing is exchanged") {
  Small small;
  small.ep = 1;
  CHECK(engine::exchange_kinds(plan::make_plan(small.make(), 0, 1)).empty());
}
