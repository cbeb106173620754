#include <doctest/doctest.h>

#include "engine/step.h"
#include "memory/replay.h"
#include "plan/decide.h"
#include "plan/plan.h"
#include "plan/write_programs.h"
#include "support/scenarios.h"

// Ranks that are equal are computed once. The answer must be that of computing every one.
using namespace moeplan;
using moeplan::test::Small;

namespace {

// The same plan with every rank standing for itself.
plan::Plan unfolded(const plan::Plan& plan) {
  plan::Plan copy = plan::make_plan(plan.scenario, 0, 1);
  copy.fold = plan.scenario->layout.stage_size();
  copy.blocks.clear();
  copy.programs.clear();
  plan::write_programs(copy);
  return copy;
}

void check_equal(const plan::Plan& folded) {
  const plan::Plan whole = unfolded(folded);
  const auto one = engine::run_step(folded), all = engine::run_step(whole);
  CHECK(one.step_s == all.step_s);
  REQUIRE(one.ranks.size() == all.ranks.size());
  for (std::size_t r = 0; r < one.ranks.size(); ++r) {
    const auto rank = static_cast<std::int64_t>(r);
    CHECK(one.ranks[r].rank == rank);
    CHECK(one.ranks[r].finish_s == all.ranks[r].finish_s);
    CHECK(one.ranks[r].busy_s == all.ranks[r].busy_s);
    CHECK(one.ranks[r].parts.family_s == all.ranks[r].parts.family_s);
    CHECK(one.ranks[r].parts.exposed_ep_s == all.ranks[r].parts.exposed_ep_s);
    CHECK(one.ranks[r].parts.bubble_s == all.ranks[r].parts.bubble_s);
    const auto standing = memory::replay(folded, folded.representative_of(rank)), own = memory::replay(whole, rank);
    CHECK(standing.peak.allocated_bytes == own.peak.allocated_bytes);
    CHECK(standing.phase_peak_bytes == own.phase_peak_bytes);
  }
  CHECK(one.mean.total() == all.mean.total());
}

Small sixteen() {
  Small small;  // two nodes of eight
  small.gpus = 16;
  small.ep = 4;
  small.gbs = 64;
  small.seq = 1024;
  return small;
}

}  // namespace

TEST_CASE("even routing folds a stage into one rank, with the same times and memory for every rank") {
  for (const int pp : {1, 2})
    for (const int tp : {1, 2})
      for (const int ep : {2, 4, 8}) {
        Small small = sixteen();
        small.pp = pp;
        small.tp = tp;
        small.ep = ep;
        const auto plan = plan::make_plan(small.make(), 0, 1);
        CAPTURE(pp);
        CAPTURE(tp);
        CAPTURE(ep);
        // 1,024 x 2 rows on 8 experts, the same in every layer. Slices of a sequence that tensor parallel ranks hold
        // may differ by a row from slice to slice: then a group stands for all groups.
        if (tp == 1) {
          CHECK(plan.fold == 1);
          CHECK(plan.decisions.size() == 1);
        }
        CHECK(plan.fold <= ep);
        check_equal(plan);
      }
}

TEST_CASE("a dense model folds into one rank a stage, and so does a group that crosses nodes") {
  Small small = sixteen();
  small.model = "tiny-dense";
  small.ep = 1;
  small.routing = "";
  const auto dense = plan::make_plan(small.make(), 0, 1);
  CHECK(dense.fold == 1);
  check_equal(dense);
  small = sixteen();
  small.optimizer = "{ sharding: zero3, shard_group: 8 }";
  const auto sharded = plan::make_plan(small.make(), 0, 1);
  CHECK(sharded.fold == 1);
  check_equal(sharded);
}

TEST_CASE("uneven experts fold groups, not members: traces and draws by place fold nothing") {
  Small small = sixteen();
  small.routing = "{ lognormal: { sigma: 0.6, seed: 3 } }";
  const auto skewed = plan::make_plan(small.make(), 0, 1);
  CHECK(skewed.fold == 4);  // one EP group of four stands for all four
  check_equal(skewed);
  small.policies = "{ memfine: { rule: fixed, chunks: 2 } }";
  check_equal(plan::make_plan(small.make(), 0, 1));
  small.policies = "{ lrmoe: {} }";
  CHECK(plan::make_plan(small.make(), 0, 1).fold == 16);
}

TEST_CASE("groups that lie on other links than their peers are not folded into them") {
  // Twelve ranks in nodes of eight, EP groups of six over two tensor-parallel pairs each: 0-5 lie in one node, 6-11 in
  // two.
  auto scenario = std::make_shared<scenario::Scenario>(*sixteen().make());
  scenario->layout.world = 12;
  scenario->layout.ep = 6;
  scenario->model.moe.experts = 12;
  scenario->training.global_batch_size = 12;
  routing::StepShape shape{1024, 1, 12, 1, 1, 12, 2};
  scenario->loads = routing::make_balanced(shape);
  const auto plan = plan::make_plan(scenario, 0, 1);
  CHECK(plan.fold == 12);
  check_equal(plan);
}

TEST_CASE("ranks with a degraded NIC are not equal to others") {
  Small small = sixteen();
  const double whole_s = engine::run_step(plan::make_plan(small.make(), 0, 1)).step_s;
  for (const char* links : {"[{ nic: 5, share: 0.5 }]", "[{ rail: 3, share: 0 }]", "[{ rail: 2, share: 0.25 }]"})
    for (const int ep : {4, 8}) {
      CAPTURE(links);
      CAPTURE(ep);
      small.ep = ep;
      small.hardware = std::string("h100-sxm, degraded: ") + links;
      auto plan = plan::make_plan(small.make(), 0, 1);
      CHECK(plan.fold > 1);
      check_equal(plan);
      CHECK(engine::run_step(plan).step_s == engine::run_step_by_ops(plan).step_s);
      // Rank 0 has a whole NIC: if it stood for all, the step would be another.
      if (ep == 4) CHECK(engine::run_step(plan).step_s > whole_s);
    }
}

TEST_CASE("stages whose transfers cross a degraded NIC are not folded") {
  // Stage 0 is the first node, stage 1 the second: each rank sends to its peer over both their NICs.
  Small small = sixteen();
  small.pp = 2;
  const auto whole = plan::make_plan(small.make(), 0, 1);
  CHECK(whole.fold == 1);
  small.hardware = "h100-sxm, degraded: [{ nic: 13, share: 0.01 }]";
  const auto plan = plan::make_plan(small.make(), 0, 1);
  CHECK(plan.fold > 1);
  check_equal(plan);
  CHECK(engine::run_step(plan).step_s == engine::run_step_by_ops(plan).step_s);
  CHECK(engine::run_step(plan).step_s > engine::run_step(whole).step_s);
}

TEST_CASE("where all NICs are alike, whole or not, ranks fold") {
  Small small = sixteen();
  small.hardware = "h100-sxm, degraded: [{ nic: 5, share: 1 }]";
  const auto plan = plan::make_plan(small.make(), 0, 1);
  CHECK(plan.fold == 1);
  const Small whole = sixteen();
  CHECK(engine::run_step(plan).step_s == engine::run_step(plan::make_plan(whole.make(), 0, 1)).step_s);
  std::string all;
  for (int rail = 0; rail < 8; ++rail)
    all += (rail > 0 ? ", { rail: " : "{ rail: ") + std::to_string(rail) + ", share: 0.5 }";
  small.hardware = "h100-sxm, degraded: [" + all + "]";
  const auto half = plan::make_plan(small.make(), 0, 1);
  CHECK(half.fold == 1);
  check_equal(half);
}

TEST_CASE("groups that cross uplinks elsewhere than their peers are not folded into them") {
  // Pods of six nodes, EP groups of four nodes: the second of the three lies half in each pod. Even rows are bound by
  // NICs in all three, uneven ones by the uplinks of the second.
  auto scenario = std::make_shared<scenario::Scenario>(*moeplan::test::scenario_from(
      "model: qwen3-30b-a3b\ncluster: { hardware: h100-sxm, gpus: 96 }\nparallel: { ep: 32 }\n"
      "training: { micro_batch_size: 1, global_batch_size: 96, seq_length: 1024 }\n"
      "routing: { lognormal: { sigma: 1, seed: 1 } }\n"));
  const auto value = [](double number) { return topology::Value{number, topology::Evidence::assumed, "test"}; };
  scenario->hardware.network.oversubscription = value(1.49);
  scenario->hardware.network.gpus_per_leaf = value(48);
  const auto plan = plan::make_plan(scenario, 0, 1);
  CHECK(plan.fold == 96);
  check_equal(plan);
  scenario->hardware.network.gpus_per_leaf = value(32);
  CHECK(plan::make_plan(scenario, 0, 1).fold == 32);
}
