#include <doctest/doctest.h>

#include <algorithm>

#include "memory/replay.h"
#include "plan/block_memory.h"
#include "plan/library_memory.h"
#include "plan/plan.h"
#include "plan/side_streams.h"
#include "support/scenarios.h"

using namespace moeplan;
using namespace moeplan::test;

namespace {

// 256 tokens a rank, h = 64, experts of 32, four of them here.
std::shared_ptr<const scenario::Scenario> in(const std::string& optimizer, const std::string& training = "",
                                             const std::string& rest = "") {
  return scenario_from(
      "model: tiny-moe\ncluster: { hardware: h100-sxm, gpus: 4 }\nparallel: { ep: 2 }\ntraining: { mbs: 1, "
      "gbs: 8, seq: 256" +
      training + " }\noptimizer: " + optimizer + "\nrouting: { balanced: true }\n" + rest);
}
const std::string kApart = "{ gradient_accumulation_fusion: false }";

plan::Block moe_block(const scenario::Scenario& scenario) {
  return plan::make_moe_layer_block(scenario, plan::make_shape(scenario), {});
}
plan::Block dense_block(const scenario::Scenario& scenario) {
  return plan::make_dense_layer_block(scenario, plan::make_shape(scenario));
}

std::size_t place(const std::vector<plan::Op>& ops, const std::string& name) {
  const auto at = std::find_if(ops.begin(), ops.end(), [&](const plan::Op& op) { return op.name == name; });
  REQUIRE(at != ops.end());
  return static_cast<std::size_t>(at - ops.begin());
}

}  // namespace

TEST_CASE("without fusion a weight gradient is a bf16 tensor until it was added to the buffer") {
  const auto scenario = in(kApart);
  const auto block = dense_block(*scenario);
  check_conserved(block);
  // Gate-up: 256 x 64 in bf16.
  CHECK(tensor(block, "weight gradient of MLP gate-up").size.bytes == 2 * 256 * 64);
  const std::size_t product = place(block.backward, "MLP gate-up wgrad");
  const auto& add = block.backward[product + 1];
  CHECK(add.name == "add weight gradient of MLP gate-up");
  CHECK(add.frees.size() == 1);
  CHECK(block.backward[product].allocates.back() == add.frees.front());
  CHECK(add.seconds > 0);
}

TEST_CASE("grouped products make all experts' gradients at once") {
  const auto block = moe_block(*in(kApart));
  check_conserved(block);
  // Four experts here: down 64 x 32 each, gate-up 64 x 64 each.
  CHECK(tensor(block, "weight gradient of expert down").size.bytes == 2 * 4 * 64 * 32);
  CHECK(tensor(block, "weight gradient of expert gate-up").size.bytes == 2 * 4 * 64 * 64);
  CHECK(block.backward[place(block.backward, "add weight gradient of expert down")].launches == 4);
}

TEST_CASE("with fusion, and under torchtitan, there are no such tensors") {
  for (const auto& scenario : {in("{}"), in(kApart, ", framework: torchtitan")})
    for (const auto& block : {dense_block(*scenario), moe_block(*scenario)})
      for (const auto& t : block.tensors) CHECK_FALSE(t.name.starts_with("weight gradient of"));
}

TEST_CASE("the stand-in gradients that fusion keeps are not there without it") {
  CHECK(plan::returned_gradient_bytes(*in("{}"), 0) > 0);
  CHECK(plan::returned_gradient_bytes(*in(kApart), 0) == 0);
}

TEST_CASE("delayed weight gradients of experts take their sums along") {
  const auto scenario = in(kApart, "", "moe: { overlap_moe_expert_parallel_comm: true, delay_wgrad_compute: true }");
  auto block = moe_block(*scenario);
  plan::delay_expert_wgrads(block);
  check_conserved(block);
  CHECK(place(block.backward, "add weight gradient of expert down") > place(block.backward, "dispatch backward"));
}

TEST_CASE("sharded gradients: the tensor is copied into the whole one, embedding and head too") {
  const auto bytes = [](const std::string& optimizer) {
    const auto plan = plan::make_plan(in(optimizer), 0, 1);
    for (const auto& block : plan.blocks)
      if (block.name == "loss") return tensor(block, "output layer returned weight gradient").size.bytes;
    return std::int64_t{-1};
  };
  CHECK(bytes("{ sharding: megatron_fsdp }") == 0);
  CHECK(bytes("{ sharding: megatron_fsdp, gradient_accumulation_fusion: false }") == 2 * 1024 * 64);
}

TEST_CASE("hidden dropout keeps a byte an element of attention's and the MLP's outputs, and of the embedding") {
  const auto with = in("{}", ", hidden_dropout: 0.1"), without = in("{}");
  for (const auto& make : {dense_block, moe_block}) {
    const auto block = make(*with);
    check_conserved(block);
    const auto kept = kept_by_forward(block), plain = kept_by_forward(make(*without));
    CHECK(kept.size() == plain.size() + 2);
    CHECK(kept.at("attention dropout mask").bytes == 256 * 64);
    CHECK(kept.at("MLP dropout mask").bytes == 256 * 64);
  }
  const auto embedding = plan::make_embedding_block(*with, plan::make_shape(*with));
  check_conserved(embedding);
  CHECK(kept_by_forward(embedding).at("embedding dropout mask").bytes == 256 * 64);
  // Recomputed layers draw their masks again.
  const auto full = in("{}", ", hidden_dropout: 0.1", "memory: { recompute_granularity: full }");
  for (const auto& make : {dense_block, moe_block}) {
    check_conserved(make(*full));
    CHECK(kept_by_forward(make(*full)).size() == 1);
  }
}

TEST_CASE("activations that are not fused keep what the router's weight scales: two tensors of a gated one") {
  const auto kept = kept_by_forward(moe_block(*in("{}", ", bias_activation_fusion: false")));
  CHECK(kept.at("expert activation before its weight").bytes_per_row == 2 * 2 * 32);
  CHECK(kept_by_forward(moe_block(*in("{}"))).count("expert activation before its weight") == 0);
  // moe_act recomputes it with the rest.
  const auto recomputed = moe_block(*in("{}", ", bias_activation_fusion: false",
                                        "memory: { recompute_granularity: selective, recompute_modules: [moe_act] }"));
  check_conserved(recomputed);
  CHECK(kept_by_forward(recomputed).count("expert activation before its weight") == 0);
}

TEST_CASE("experts one by one need no workspaces of grouped products") {
  const std::int64_t one = std::int64_t{32} << 20;
  CHECK(plan::product_workspace_bytes(*in("{}"), 0) == 7 * one);
  CHECK(plan::product_workspace_bytes(*in("{}", "", "moe: { grouped_gemm: false }"), 0) == 3 * one);
}
