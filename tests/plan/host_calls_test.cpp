#include "plan/host_calls.h"

#include <doctest/doctest.h>

#include "plan/blocks.h"
#include "plan/plan.h"
#include "support/scenarios.h"

using namespace moeplan;
using moeplan::test::Small;

namespace {

std::shared_ptr<scenario::Scenario> copy_of(const Small& small) {
  return std::make_shared<scenario::Scenario>(*small.make());
}

const plan::Block& block_named(const plan::Plan& plan, const std::string& name) {
  for (const plan::Block& block : plan.blocks)
    if (block.name == name) return block;
  FAIL("no block " << name);
  return plan.blocks.front();
}

// calls of the op of that name, -1 where there is none
int calls(const std::vector<plan::Op>& ops, const std::string& name) {
  for (const plan::Op& op : ops)
    if (op.name == name) return op.calls;
  return -1;
}

}  // namespace

TEST_CASE("an eager MoE layer: router and preparation of the exchange have 72 operations, 31 with the fused router") {
  auto scenario = copy_of(Small());
  const auto calls_of_router = [&] {
    const auto plan = plan::make_plan(scenario, 0, 1);
    const auto& ops = block_named(plan, "MoE layer").forward;
    // Of `notify` 6 are the exchange of counts and their copies to the host.
    return calls(ops, "router") + calls(ops, "router top-k") + calls(ops, "notify") - 6;
  };
  CHECK(calls_of_router() == 72);
  scenario->dispatch.router_fusion = true;
  CHECK(calls_of_router() == 31);
}

TEST_CASE("grouped products are issued one an expert: hooks of gradients one more") {
  auto scenario = copy_of(Small());  // 8 experts over ep 2: 4 a rank
  const auto plan = plan::make_plan(scenario, 0, 1);
  const auto& block = block_named(plan, "MoE layer");
  CHECK(calls(block.forward, "expert gate-up") == 3 + 1);  // 4 experts at 0.2 of an operation
  CHECK(calls(block.backward, "expert gate-up dgrad") == 2 + 1);
  CHECK(calls(block.backward, "expert gate-up wgrad") == 2 + 5);  // and hooks: 1.2 an expert
  CHECK(calls(block.forward, "qkv projection") == 3);
  CHECK(calls(block.backward, "qkv projection wgrad") == 3);
  // embedding or head 2, dense layer 8, MoE layer 9 and two matrices of each of 4 experts; each walked over 4 times
  CHECK(calls(block_named(plan, "optimizer").forward, "Adam") == 4 * (2 + 8 + 9 + 2 * 4));
}

TEST_CASE("fused permutation saves operations: a compiled block only launches: a graph is replayed in a few") {
  auto scenario = copy_of(Small());
  const auto permute = [&] {
    const auto plan = plan::make_plan(scenario, 0, 1);
    return calls(block_named(plan, "MoE layer").forward, "permute");
  };
  CHECK(permute() == 3);
  scenario->dispatch.permute_fusion = false;
  CHECK(permute() == 8);
  scenario->training.framework = scenario::Framework::torchtitan;
  CHECK(permute() == 0);

  scenario = copy_of(Small());
  scenario->training.cuda_graphs = scenario::CudaGraphs::transformer_engine;
  scenario->training.cuda_graph_scope = {"attn"};
  const auto plan = plan::make_plan(scenario, 0, 1);
  const auto& ops = block_named(plan, "dense layer").forward;
  int replays = 0;
  for (const plan::Op& op : ops)
    if (op.name.starts_with("attention norm") || op.name == "qkv projection" || op.name == "core attention")
      replays += op.captured ? 0 : 1;
  CHECK(replays == 1);  // the first of the graph stands for its replay
  CHECK(calls(ops, "attention norm") == 4);
}

TEST_CASE("a module that is recomputed costs the host the states of random generators, once") {
  const auto recomputed = [](const std::string& memory) {
    Small small;
    small.memory = memory;
    const auto plan = plan::make_plan(copy_of(small), 0, 1);
    int calls = 0;
    for (const plan::Op& op : block_named(plan, "dense layer").backward) calls += op.recompute ? op.calls : 0;
    return calls;
  };
  const int attention = recomputed("{ recompute_granularity: selective, recompute_modules: [core_attn] }");
  CHECK(attention == 12 + 8);  // core attention runs again: 12 operations, and 8
}

TEST_CASE("a rank of DualPipe walks over the parameters of both its stages") {
  // Two ranks hold both stages each: as many tensors as one rank that holds all layers.
  const auto adam = [](const std::string& schedule, int pp) {
    const auto plan = plan::make_plan(test::staged(schedule, pp).make(), 0, 1);
    return calls(block_named(plan, "optimizer").forward, "Adam");
  };
  CHECK(adam("dualpipe", 2) == adam("1f1b", 1));
  CHECK(adam("1f1b", 2) < adam("1f1b", 1));
}
