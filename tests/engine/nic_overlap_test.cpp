#include "engine/nic_overlap.h"

#include <doctest/doctest.h>

#include "engine/step.h"
#include "support/scenarios.h"

using namespace moeplan;
using moeplan::test::Small;

namespace {

// In nodes of `gpus_per_node`.
engine::NicOverlap overlap_of(const Small& small, double gpus_per_node, double& step_s) {
  auto scenario = std::make_shared<scenario::Scenario>(*small.make());
  scenario->hardware.network.gpus_per_node.value = scenario->hardware.network.nics_per_node.value = gpus_per_node;
  scenario->hardware.host.launch.value = scenario->hardware.host.operation.value =
      0;  // the device is never idle for it
  const auto plan = plan::make_plan(scenario, 0, 1);
  const engine::StepTime step = engine::run_step(plan);
  step_s = step.step_s;
  const auto overlap = engine::nic_overlap(plan, step.ops);
  REQUIRE(overlap.has_value());
  return *overlap;
}

}  // namespace

TEST_CASE("one node: no NIC is used") {
  Small small;
  small.gpus = 8;
  small.gbs = 16;
  double step_s = 0;
  const auto overlap = overlap_of(small, 8, step_s);
  CHECK(overlap.busy_s == 0);
  CHECK(overlap.mean_s == 0);
}

TEST_CASE(
    "communication that is one after the other does not overlap, gradients that are reduced beside exchanges do") {
  Small small;  // EP groups over two nodes, two of them: gradients of experts and of the rest cross nodes, too
  small.gpus = 16;
  small.ep = 8;
  small.gbs = 64;
  small.seq = 1024;
  double step_s = 0;
  const auto alone = overlap_of(small, 4, step_s);
  CHECK(alone.busy_s > 0);
  CHECK(alone.busy_s < step_s);
  CHECK(alone.mean_s == 0);
  CHECK(alone.worst_s == 0);
  small.schedule = "1f1b, overlap_grad_reduce: true, overlap_param_gather: true";
  const auto beside = overlap_of(small, 4, step_s);
  CHECK(beside.worst_s > 0);
  CHECK(beside.mean_s == beside.worst_s);  // one stage: one rank is followed
  CHECK(beside.worst_s < beside.busy_s);
  CHECK(beside.busy_s < step_s);
}

TEST_CASE("a step of more ops than are gone through has no answer") {
  const auto plan = plan::make_plan(Small{}.make(), 0, 1);
  CHECK(engine::nic_overlap(plan, 2'000'000).has_value());
  CHECK(!engine::nic_overlap(plan, 2'000'001).has_value());
}
