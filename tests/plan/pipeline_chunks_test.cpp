#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "plan/moe.h"
#include "plan/write_programs.h"
#include "support/scenarios.h"

using namespace moeplan;
using moeplan::test::Small;

namespace {

plan::Plan plan_of(bool pipelined, int chunks = 2) {
  Small small;
  small.policies = "{ memfine: { rule: fixed, chunks: " + std::to_string(chunks) +
                   ", pipelined: " + (pipelined ? "true" : "false") + " } }";
  return plan::make_plan(small.make(), 0, 1);
}

const plan::Block& moe_block(const plan::Plan& plan) {
  return *std::find_if(plan.blocks.begin(), plan.blocks.end(),
                       [](const plan::Block& block) { return block.name == "MoE layer"; });
}

// Ops of the routed part by name, "*" for those that run beside the exchange in front of them.
std::vector<std::string> routed(const std::vector<plan::Op>& ops, const std::string& from, const std::string& to) {
  std::vector<std::string> names;
  bool in = false;
  for (const plan::Op& op : ops) {
    if (op.name == from) in = true;
    if (op.name == to) break;
    if (in) names.push_back(op.name + (op.beside_exchange ? "*" : op.covered ? "!" : ""));
  }
  return names;
}

}  // namespace

TEST_CASE("two chunks in a pipeline: the second is sent before the first is computed, and sorted when it is back") {
  const auto plan = plan_of(true);
  CHECK(routed(moe_block(plan).forward, "notify", "concatenate chunks") ==
        std::vector<std::string>{"notify",  // of the layer, for its chunk count
                                 "notify",
                                 "permute",
                                 "dispatch",
                                 "sort by expert",  // chunk 1
                                 "notify",
                                 "permute",
                                 "dispatch!",  // chunk 2, on its way while
                                 "expert gate-up*",
                                 "expert SwiGLU*",
                                 "expert down*",
                                 "restore arrival order*",
                                 "combine",
                                 "unpermute",  // chunk 1 is back
                                 "sort by expert",
                                 "expert gate-up",
                                 "expert SwiGLU",
                                 "expert down",
                                 "restore arrival order",
                                 "combine",
                                 "unpermute"});
}

TEST_CASE("a pipeline of chunks has the same ops and tensors as the sequence") {
  for (int chunks : {1, 2, 3, 8}) {
    const auto one = plan_of(false, chunks), two = plan_of(true, chunks);
    const plan::Block &sequence = moe_block(one), &pipeline = moe_block(two);
    REQUIRE(sequence.tensors.size() == pipeline.tensors.size());
    for (const auto list : {&plan::Block::forward, &plan::Block::backward}) {
      const auto names = [&](const plan::Block& block) {
        std::vector<std::string> sorted;
        for (const plan::Op& op : block.*list) sorted.push_back(op.name + " " + std::to_string(op.size.rows.chunk));
        std::sort(sorted.begin(), sorted.end());
        return sorted;
      };
      CHECK(names(sequence) == names(pipeline));
      const auto covered = std::count_if((pipeline.*list).begin(), (pipeline.*list).end(),
                                         [](const plan::Op& op) { return op.covered; });
      CHECK(covered == chunks - 1);  // all exchanges of dispatch but the first
    }
  }
}

TEST_CASE("without experts on other ranks nothing travels, and the pipeline is the sequence") {
  Small small;
  small.ep = 1;
  small.policies = "{ memfine: { rule: fixed, chunks: 2, pipelined: true } }";
  const auto scenario = small.make();
  const auto plan = plan::make_plan(scenario, 0, 1);
  for (const plan::Op& op : moe_block(plan).forward) CHECK_FALSE(op.covered);
  CHECK(std::any_of(scenario->warnings.begin(), scenario->warnings.end(), [](const std::string& line) {
    return line.find("memfine.pipelined has no effect") != std::string::npos;
  }));
}

TEST_CASE("the adaptive rule counts the arrived rows of the chunk ahead: D h bytes a row more") {
  Small small;
  small.memory = "{ given_static_bytes: 1 GB }";
  const auto rows = [&](const std::string& pipelined) {
    small.policies = "{ memfine: { rule: adaptive, pipelined: " + pipelined + " } }";
    return plan::make_plan(small.make(), 0, 1);
  };
  const auto plain = rows("false"), ahead = rows("true");
  const auto& model = plain.scenario->model;
  // Equation 2's row: two bytes of 2 (h + g) inputs and outputs.
  const double row = 2.0 * static_cast<double>(2 * model.hidden + 2 * model.moe.ffn);
  const double more = 2.0 * static_cast<double>(model.hidden);
  CHECK(ahead.memfine_max_rows[0] / plain.memfine_max_rows[0] == doctest::Approx(row / (row + more)).epsilon(1e-6));
}
