#include <doctest/doctest.h>

#include "plan/block_memory.h"
#include "plan/plan.h"
#include "support/scenarios.h"

using namespace moeplan;
using moeplan::test::Small;

namespace {

std::shared_ptr<scenario::Scenario> biased(double clamp) {
  auto scenario = std::make_shared<scenario::Scenario>(*Small().make());
  scenario->model.moe.expert_bias = true;
  scenario->model.activation_clamp = clamp;
  return scenario;
}

plan::Block moe_block(const std::shared_ptr<scenario::Scenario>& scenario) {
  for (plan::Block& block : plan::make_plan(scenario, 0, 1).blocks)
    if (block.name == "MoE layer") return std::move(block);
  FAIL("no MoE layer");
  return {};
}

const plan::Op* find(const std::vector<plan::Op>& ops, const std::string& name) {
  for (const plan::Op& op : ops)
    if (op.name == name) return &op;
  return nullptr;
}

}  // namespace

TEST_CASE("biases of experts are added in pieces, clamped halves are copies that stay") {
  const plan::Block plain = moe_block(biased(0)), clamped = moe_block(biased(7));
  test::check_conserved(plain);
  test::check_conserved(clamped);
  // h 64: the bias times fp32 probabilities is written (4), added to the output (2 + 4 read, 4 written), the experts'
  // sums are concatenated (4, 4) and cast (4, 2): 28 bytes an element.
  const plan::Op* bias = find(plain.forward, "expert bias");
  REQUIRE(bias != nullptr);
  CHECK(bias->size.bytes_per_row == 28 * 64);
  CHECK(bias->launches == 3 * 4 + 2);  // 4 experts of the rank
  REQUIRE(find(plain.backward, "expert bias backward") != nullptr);
  CHECK(find(plain.backward, "expert bias backward")->size.bytes_per_row == 36 * 64);
  CHECK(find(plain.forward, "expert clamp") == nullptr);
  // Gate and up, 2 x 32 wide in bf16: read and written by the clamp, and again by the concatenation.
  REQUIRE(find(clamped.forward, "expert clamp") != nullptr);
  CHECK(find(clamped.forward, "expert clamp")->size.bytes_per_row == 4 * 2 * 32 * 2);
  const auto kept = test::kept_by_forward(clamped);
  CHECK(kept.at("clamped expert gate-up output").bytes_per_row == 2 * 32 * 2);
  CHECK(kept.contains("expert gate-up output"));
  CHECK_FALSE(test::kept_by_forward(plain).contains("clamped expert gate-up output"));
}

TEST_CASE("recomputed activations keep no clamped copy; fused experts have neither pieces nor copies") {
  auto scenario = biased(7);
  scenario->recompute.granularity = scenario::RecomputeGranularity::selective;
  scenario->recompute.modules = {scenario::RecomputeModule::moe_act};
  const plan::Block recomputed = moe_block(scenario);
  test::check_conserved(recomputed);
  CHECK_FALSE(test::kept_by_forward(recomputed).contains("clamped expert gate-up output"));
  CHECK(find(recomputed.backward, "expert clamp") != nullptr);

  scenario = biased(0);
  scenario->dispatch.op_fuser = true;
  const plan::Block fused = moe_block(scenario);
  test::check_conserved(fused);
  CHECK(find(fused.forward, "expert bias") == nullptr);
  CHECK(find(fused.forward, "expert SwiGLU")->launches == 0);  // within the product
  scenario->model.activation_clamp = 7;                        // has a kernel of its own
  const plan::Block clamped = moe_block(scenario);
  CHECK(find(clamped.forward, "expert clamp") == nullptr);
  CHECK(find(clamped.forward, "expert SwiGLU")->launches == 1);
}
