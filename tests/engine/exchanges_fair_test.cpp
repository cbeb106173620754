#include <doctest/doctest.h>

#include "cost/exchange.h"
#include "engine/exchanges.h"
#include "engine/step.h"
#include "support/scenarios.h"
#include "topology/layout.h"

// What fair sharing of the links (L1) makes of the exchanges of a step.
using namespace moeplan;
using moeplan::test::Small;

namespace {

// Nodes of four, EP groups of eight over two of them, skewed; each node a leaf whose uplinks carry its NICs' rate over
// `ratio`.
std::shared_ptr<scenario::Scenario> skewed(double ratio, const std::string& links = "[]") {
  Small small;
  small.gpus = 16;
  small.ep = 8;
  small.gbs = 64;
  small.seq = 1024;
  small.routing = "{ lognormal: { sigma: 0.6, seed: 3 } }";
  small.hardware = "h100-sxm, degraded: " + links;
  auto scenario = std::make_shared<scenario::Scenario>(*small.make());
  scenario->hardware.network.gpus_per_node.value = scenario->hardware.network.nics_per_node.value = 4;
  scenario->hardware.host.launch.value = scenario->hardware.host.operation.value =
      0;  // the device is never idle for it
  scenario->hardware.network.oversubscription = topology::Value{ratio, topology::Evidence::assumed, "test"};
  scenario->hardware.network.gpus_per_leaf = topology::Value{4, topology::Evidence::assumed, "test"};
  return scenario;
}

}  // namespace

TEST_CASE("L1 of a step's exchanges is never below L0, and the kinds are the same") {
  for (const double ratio : {1.0, 4.0}) {
    const auto plan = plan::make_plan(skewed(ratio), 0, 1);
    const auto kinds = engine::exchange_kinds(plan);
    const engine::Exchanges exchanges = engine::exchanges_of(plan);
    REQUIRE(kinds.size() == exchanges.kinds.size());
    REQUIRE(!kinds.empty());
    for (std::size_t i = 0; i < kinds.size(); ++i) {
      const engine::ExchangeKind& kind = exchanges.kinds[i];
      CAPTURE(kind.name);
      CHECK(kind.name == kinds[i].name);
      CHECK(kind.mean_s == kinds[i].mean_s);
      CHECK(kind.worst_s == kinds[i].worst_s);
      CHECK(kind.l1_mean_s >= kind.mean_s);
      CHECK(kind.l1_worst_s >= kind.worst_s);
      CHECK(kind.distinct >= 1);
      CHECK(kind.l1_distinct == kind.distinct);  // small: all of them
    }
  }
}

TEST_CASE("the factor of an exchange is that of fair sharing of its bytes") {
  const auto scenario = skewed(4);
  const auto plan = plan::make_plan(scenario, 0, 1);
  const engine::Exchanges exchanges = engine::exchanges_of(plan);
  const auto ranks = topology::group_members(scenario->layout, topology::GroupKind::ep, 0);
  const cost::Fabric fabric = cost::group_fabric(ranks, plan.cluster, scenario->hardware);
  std::vector<std::int64_t> matrix;
  int checked = 0;
  for (const plan::Visit& visit : plan.program_of(0).visits) {
    for (const plan::Op& op : plan::ops_of(plan.blocks[static_cast<std::size_t>(visit.block)], visit.direction)) {
      if (op.work != plan::Work::all_to_all) continue;
      engine::exchange_matrix(plan, op, visit, 0, ranks.size(), matrix);
      const cost::ExchangeTime time = cost::exchange_time(matrix, fabric);
      const auto& decision = plan.decision(visit.moe_layer, visit.microbatch, plan.group_of(0));
      CHECK(exchanges.factors.of(op, &decision, 0) == doctest::Approx(time.l1_s / time.l0_s).epsilon(1e-12));
      ++checked;
    }
  }
  CHECK(checked > 0);
}

TEST_CASE("a step with every exchange at L1 takes longer where links block, the same op by op") {
  for (const char* links : {"[]", "[{ nic: 3, share: 0.25 }]"}) {
    const auto plan = plan::make_plan(skewed(4, links), 0, 1);
    const engine::Exchanges exchanges = engine::exchanges_of(plan);
    const double l0_s = engine::run_step(plan).step_s, l1_s = engine::run_step(plan, &exchanges.factors).step_s;
    CHECK(l1_s >= l0_s);
    CHECK(l1_s == engine::run_step_by_ops(plan, &exchanges.factors).step_s);
    CHECK(exchanges.factors.any() == (l1_s > l0_s));
    // No exchange takes longer than its factor says, so neither does the step.
    double largest = 1;
    for (const engine::ExchangeKind& kind : exchanges.kinds)
      largest = std::max({largest, kind.l1_worst_s / kind.worst_s, kind.l1_mean_s / kind.mean_s});
    CHECK(l1_s <= 1.5 * largest * l0_s);
  }
}

TEST_CASE("factors: an exchange that was not worked out has its kind's mean") {
  engine::ExchangeFactors factors;
  plan::Op op, other;
  op.name = other.name = "dispatch";
  const policy::LayerDecision decision;
  CHECK(factors.of(op, &decision, 0) == 1);
  CHECK(!factors.any());
  factors.set(op, decision, 0, 1.25);
  factors.set_mean("dispatch", 1.125);
  CHECK(factors.any());
  CHECK(factors.of(op, &decision, 0) == 1.25);
  CHECK(factors.of(op, &decision, 8) == 1.125);
  CHECK(factors.of(other, &decision, 0) == 1.125);
  other.name = "combine";
  CHECK(factors.of(other, &decision, 0) == 1);
}
