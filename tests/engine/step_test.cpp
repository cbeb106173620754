#include "engine/step.h"

#include <doctest/doctest.h>

#include "engine/plan_source.h"
#include "support/scenarios.h"

using namespace moeplan;
using moeplan::test::Small;

namespace {

Small skewed() {
  Small small;
  small.model = "tiny-mla";
  small.seq = 1024;
  small.routing = "{ lognormal: { sigma: 0.9, seed: 4 } }";
  return small;
}

}  // namespace

TEST_CASE("the parts of every rank add up to the step") {
  for (int pp : {1, 2})
    for (int tp : {1, 2}) {
      Small small = skewed();
      small.gpus = 8;
      small.pp = pp;
      small.tp = tp;
      small.policies = "{ memfine: { rule: fixed, chunks: 2 } }";
      const auto step = engine::run_step(plan::make_plan(small.make(), 0, 1));
      CHECK(step.mean.total() == doctest::Approx(step.step_s).epsilon(1e-9));
      for (const auto& rank : step.ranks) {
        CHECK(rank.parts.total() == doctest::Approx(step.step_s).epsilon(1e-9));
        CHECK(rank.busy_s <= step.step_s);
        CHECK(rank.parts.imbalance_wait_s >= 0);
      }
    }
}

TEST_CASE("the event queue gives the same times as the recurrence on whole plans") {
  for (int pp : {1, 2}) {
    Small small = skewed();
    small.gpus = 8;
    small.pp = pp;
    small.tp = 2;
    small.policies = "{ memfine: { rule: fixed, chunks: 2 }, lrmoe: {} }";
    const auto plan = plan::make_plan(small.make(), 0, 1);
    engine::PlanSource a(plan), b(plan);
    const auto fast = engine::run_max_plus(a), slow = engine::run_events(b);
    CHECK(fast.finish_ps == slow.finish_ps);
    CHECK(fast.ops == slow.ops);
    for (std::int64_t rank = 0; rank < 8; ++rank) CHECK(a.parts_of(rank).seconds().total() == b.parts_of(rank).seconds().total());
  }
}

TEST_CASE("permuting experts inside a rank changes neither time nor rows") {
  // Experts 0..3 live on the first member, 4..7 on the second: the counts of each member in another order.
  Small small;
  small.model = "tiny-moe";
  small.mbs = 8;
  small.gbs = 32;
  small.seq = 8192;
  auto with = [&](const char* file) {
    small.routing = std::string("{ trace: ../tests/data/plan/") + file + " }";
    auto scenario = std::make_shared<scenario::Scenario>(*small.make());
    scenario->hardware.host.operation.value = 0;  // the device sets the pace
    return engine::run_step(plan::make_plan(scenario, 0, 1)).step_s;
  };
  CHECK(with("counts.csv") == with("counts_permuted.csv"));
  CHECK(with("counts.csv") != with("counts_moved.csv"));  // experts swapped between the ranks: another step
}

TEST_CASE("more of a resource is never slower") {
  const auto base = skewed().make();
  const double before = engine::run_step(plan::make_plan(base, 0, 1)).step_s;
  auto faster = [&](auto change) {
    auto scenario = std::make_shared<scenario::Scenario>(*base);
    change(scenario->hardware);
    return engine::run_step(plan::make_plan(scenario, 0, 1)).step_s;
  };
  CHECK(faster([](auto& hw) { hw.gemm.peak.value *= 2; }) <= before);
  CHECK(faster([](auto& hw) { hw.gemm.bandwidth.value *= 2; }) <= before);
  CHECK(faster([](auto& hw) { hw.memory_bound.bandwidth.value *= 2; }) <= before);
  CHECK(faster([](auto& hw) { hw.network.scale_up_bandwidth.value *= 2; }) <= before);
  CHECK(faster([](auto& hw) { hw.host.launch.value /= 2; }) < before);
}

TEST_CASE("two equal stages: the bubble of 1F1B is (p - 1) / m of the work") {
  // Four equal MoE layers would be ideal; embedding and loss differ, so the bubble is bracketed by the lighter and the
  // heavier stage.
  Small small = skewed();
  small.routing = "{ balanced: true }";
  small.pp = 2;
  small.gbs = 16;  // 8 microbatches
  auto scenario = std::make_shared<scenario::Scenario>(*small.make());
  scenario->hardware.host.operation.value = 0;  // the device alone counts: a small model waits for its host
  const auto step = engine::run_step(plan::make_plan(scenario, 0, 1));
  double lighter = 1e9, heavier = 0;
  for (const auto& rank : step.ranks) {
    lighter = std::min(lighter, step.step_s - rank.parts.bubble_s);
    heavier = std::max(heavier, step.step_s - rank.parts.bubble_s);
  }
  // The step cannot be shorter than the heavier stage's work plus one forward and backward of the lighter.
  CHECK(step.step_s >= heavier);
  CHECK(step.step_s <= heavier + lighter / 8 * 1.5);
}

TEST_CASE("one chunk costs one notify more than recompute of the routed part") {
  Small small = skewed();
  small.policies = "{ memfine: { rule: fixed, chunks: 1 } }";
  const auto one = engine::run_step(plan::make_plan(small.make(), 0, 1));
  small.policies = "{ memfine: { rule: fixed, chunks: 4 } }";
  const auto four = engine::run_step(plan::make_plan(small.make(), 0, 1));
  CHECK(four.step_s > one.step_s);
  CHECK(one.mean.recompute_s > 0);
}

TEST_CASE("interleaving shrinks the bubble, and both engines agree on virtual stages and every kind of group") {
  auto plan_of = [](const std::string& layout) {
    const std::string text = "model: tiny-mla\ncluster: { hardware: h100-sxm, gpus: 8 }\nparallel: " + layout +
                             "\ntraining: { micro_batch_size: 2, global_batch_size: 64, seq_length: 4096 }\nrouting: { "
                             "lognormal: { sigma: 0.5 } }\n";
    return plan::make_plan(moeplan::test::scenario_from(text), 0, 1);
  };
  for (const char* layout :
       {"{ pp: 2, vpp: 2, ep: 2 }", "{ pp: 4, ep: 2 }", "{ tp: 2, cp: 2, ep: 4 }", "{ tp: 2, ep: 2, etp: 2 }"}) {
    CAPTURE(layout);
    const auto plan = plan_of(layout);
    engine::PlanSource a(plan), b(plan);
    CHECK(engine::run_max_plus(a).finish_ps == engine::run_events(b).finish_ps);
    const auto step = engine::run_step(plan);
    for (const auto& rank : step.ranks) CHECK(rank.parts.total() == doctest::Approx(step.step_s).epsilon(1e-9));
  }
  CHECK(engine::run_step(plan_of("{ pp: 2, vpp: 2, ep: 2 }")).mean.bubble_s <
        engine::run_step(plan_of("{ pp: 2, ep: 2 }")).mean.bubble_s);
}

TEST_CASE("times beyond what can be counted are the user's fault, never a wrong number") {
  const auto base = skewed().make();
  auto run = [&](auto change) {
    auto scenario = std::make_shared<scenario::Scenario>(*base);
    change(scenario->hardware);
    engine::run_step(plan::make_plan(scenario, 0, 1));
  };
  CHECK_THROWS_AS(run([](auto& hw) { hw.gemm.peak.value = 1; }), base::Error);
  CHECK_THROWS_AS(run([](auto& hw) { hw.host.launch.value = 1e4; }), base::Error);
  CHECK_THROWS_AS(run([](auto& hw) { hw.host.launch.value = 8000; }), base::Error);  // the sum, not one operation
  CHECK_THROWS_AS(run([](auto& hw) { hw.memory_bound.bandwidth.value = 1; }), base::Error);
  CHECK_THROWS_AS(run([](auto& hw) { hw.grouped_gemm.efficiency.value = 1e-300; }), base::Error);
  CHECK_THROWS_AS(run([](auto& hw) { hw.network.scale_up_bandwidth.value = 1e-3; }), base::Error);
  CHECK_NOTHROW(run([](auto& hw) { hw.host.launch.value = 100; }));
}
