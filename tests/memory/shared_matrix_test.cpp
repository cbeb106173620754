#include <doctest/doctest.h>

#include <algorithm>

#include "memory/replay.h"
#include "plan/plan.h"
#include "support/scenarios.h"

using namespace moeplan;
using moeplan::test::scenario_file;

namespace {

// Empty gradients of the output layer's matrix that are alive at once in a rank's backward, at most.
std::int64_t most_held(const plan::Plan& plan, std::int64_t rank) {
  std::int64_t held = 0, most = 0;
  for (const plan::Visit& visit : plan.program_of(rank).visits) {
    const plan::Block& block = plan.blocks[static_cast<std::size_t>(visit.block)];
    const auto& ops = plan::ops_of(block, visit.direction);
    const auto count = [&](const std::vector<std::uint32_t>& ids) {
      return std::count_if(ids.begin(), ids.end(), [&](std::uint32_t id) {
        return block.tensors[id].name == "output layer returned weight gradient";
      });
    };
    for (std::size_t o = visit.first_op; o < std::min<std::size_t>(visit.end_op, ops.size()); ++o) {
      held += count(ops[o].allocates);
      most = std::max(most, held);
      held -= count(ops[o].frees);
    }
  }
  CHECK(held == 0);
  return most;
}

std::int64_t most_held(const std::vector<std::pair<std::string, std::string>>& changes) {
  std::vector<std::pair<std::string, std::string>> set = {{"gpus", "8"}, {"gbs", "16"}, {"ep", "8"}};
  set.insert(set.end(), changes.begin(), changes.end());
  const auto scenario = scenario_file("quickstart.yaml", set);
  const plan::Plan plan = plan::make_plan(scenario, 0, 1);
  const std::int64_t last = scenario->layout.world - 1;
  memory::replay(plan, last);  // nothing is left, freed twice, or allocated twice
  return most_held(plan, last);
}

}  // namespace

TEST_CASE("heads of MTP blocks share their matrix with the main one: its gradient stays until the last of them") {
  CHECK(most_held({}) == 1);
  CHECK(most_held({{"model.mtp_num_layers", "1"}}) == 2);
  CHECK(most_held({{"model.mtp_num_layers", "2"}}) == 3);
  // In groups of layers that are recomputed together, and where two microbatches take turns.
  CHECK(most_held({{"model.mtp_num_layers", "1"}, {"recompute_granularity", "full"}, {"recompute_num_layers", "2"}}) ==
        2);
  CHECK(most_held({{"model.mtp_num_layers", "1"}, {"moe.overlap_moe_expert_parallel_comm", "true"}}) == 2);
  // An embedding that is tied to it holds on longer.
  CHECK(most_held({{"model.tie_word_embeddings", "true"}}) == 1);
  CHECK(most_held({{"model.tie_word_embeddings", "true"}, {"model.mtp_num_layers", "1"}}) == 2);
}

TEST_CASE("weight gradients apart from backward are not held: each is added by itself") {
  CHECK(most_held({{"model.mtp_num_layers", "1"},
                   {"pp", "2"},
                   {"ep", "4"},
                   {"decoder_first_pipeline_num_layers", "14"},
                   {"schedule", "zb_h1"}}) == 1);
}
