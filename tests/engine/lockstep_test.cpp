#include "engine/lockstep.h"

#include <doctest/doctest.h>

#include <string>

#include "engine/step.h"
#include "plan/plan.h"
#include "support/scenarios.h"

// Rows of ranks in lockstep, and max-plus op by op: two evaluations of the same plan, which share the costs of ops and
// nothing else. Times are whole picoseconds, so both must be equal to the last bit.
using namespace moeplan;
using moeplan::test::Small;

namespace {

void check_equal(const plan::Plan& plan) {
  const auto rows = engine::run_step(plan), ops = engine::run_step_by_ops(plan);
  CHECK(rows.step_s == ops.step_s);
  CHECK(rows.ops == ops.ops);
  REQUIRE(rows.ranks.size() == ops.ranks.size());
  for (std::size_t r = 0; r < rows.ranks.size(); ++r) {
    const auto &a = rows.ranks[r], &b = ops.ranks[r];
    CAPTURE(r);
    CHECK(a.finish_s == b.finish_s);
    CHECK(a.busy_s == b.busy_s);
    CHECK(a.parts.family_s == b.parts.family_s);
    CHECK(a.parts.recompute_s == b.parts.recompute_s);
    CHECK(a.parts.exposed_ep_s == b.parts.exposed_ep_s);
    CHECK(a.parts.exposed_tp_s == b.parts.exposed_tp_s);
    CHECK(a.parts.exposed_pp_s == b.parts.exposed_pp_s);
    CHECK(a.parts.exposed_dp_s == b.parts.exposed_dp_s);
    CHECK(a.parts.imbalance_wait_s == b.parts.imbalance_wait_s);
    CHECK(a.parts.bubble_s == b.parts.bubble_s);
    CHECK(a.parts.host_s == b.parts.host_s);
  }
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

TEST_CASE("rows in lockstep and op by op agree on every layout, routing and policy") {
  int by_rows = 0;
  for (const char* routing : {"{ balanced: true }", "{ lognormal: { sigma: 0.6, seed: 3 } }"})
    for (const char* policies : {"", "{ memfine: { rule: fixed, chunks: 2 } }", "{ lrmoe: {} }"})
      for (const int pp : {1, 2})
        for (const int tp : {1, 2})
          for (const int ep : {2, 4, 8}) {
            Small small = sixteen();
            small.pp = pp;
            small.tp = tp;
            small.ep = ep;
            small.routing = routing;
            small.policies = policies;
            CAPTURE(routing);
            CAPTURE(policies);
            CAPTURE(pp);
            CAPTURE(tp);
            CAPTURE(ep);
            const auto plan = plan::make_plan(small.make(), 0, 1);
            by_rows += engine::run_lockstep(plan) ? 1 : 0;
            check_equal(plan);
          }
  CHECK(by_rows == 2 * 3 * 2 * 3);  // tensor parallel exchanges run beside products on this part
}

TEST_CASE("every schedule agrees, whether its transfers wrap round or its microbatches take turns") {
  int by_rows = 0;
  for (const char* schedule : {"1f1b", "gpipe", "zb_h1", "zb_v", "dualpipe"})
    for (const char* memory : {"{}", "{ recompute_granularity: full, recompute_method: uniform }"})
      for (const int pp : {2, 4}) {
        if (pp == 4 && std::string(schedule) == "zb_v") continue;  // eight virtual stages of four layers
        Small small = test::staged(schedule, pp);
        small.memory = memory;
        small.routing = "{ lognormal: { sigma: 0.6, seed: 3 } }";
        CAPTURE(schedule);
        CAPTURE(memory);
        CAPTURE(pp);
        const auto plan = plan::make_plan(small.make(), 0, 1);
        by_rows += engine::run_lockstep(plan) ? 1 : 0;
        check_equal(plan);
      }
  CHECK(by_rows >= 8);  // at least the first two
}

TEST_CASE("virtual stages, transfers posted ahead and every kind of group agree") {
  for (const char* routing : {"lognormal: { sigma: 0.5 }", "balanced: true"})
    for (const char* layout : {"{ pp: 2, vpp: 2, ep: 2 }", "{ pp: 4, ep: 2 }", "{ tp: 2, cp: 2, ep: 4 }",
                               "{ tp: 2, ep: 2, etp: 2 }", "{ tp: 4, ep: 2, pp: 2 }", "{ cp: 2, ep: 8 }"})
      for (const char* ahead : {"", ", overlap_p2p_comm: true", ", overlap_p2p_comm: false"}) {
        if (ahead[0] != 0 && std::string(layout).find("pp") == std::string::npos) continue;
        CAPTURE(ahead);
        CAPTURE(layout);
        CAPTURE(routing);
        // Where MXFP8 is, tensor parallel exchanges do not run beside products by default.
        const std::string text = std::string("model: tiny-mla\ncluster: { hardware: b200-sxm, gpus: 8 }\nparallel: ") +
                                 layout + "\ntraining: { micro_batch_size: 2, global_batch_size: 64, seq_length: 4096" +
                                 ahead +
                                 " }\n"
                                 "routing: { " +
                                 routing + " }\n";
        const auto plan = plan::make_plan(test::scenario_from(text), 0, 1);
        CHECK(engine::run_lockstep(plan).has_value());
        check_equal(plan);
      }
}

TEST_CASE("a plan with ops beside others is left to the evaluation op by op") {
  Small small = sixteen();
  small.optimizer = "{ sharding: zero3, shard_group: 8 }";  // parameters are gathered beside computation
  CHECK_FALSE(engine::run_lockstep(plan::make_plan(small.make(), 0, 1)).has_value());
}
