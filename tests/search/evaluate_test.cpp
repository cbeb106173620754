#include "search/evaluate.h"

#include <doctest/doctest.h>

#include <cmath>
#include <map>

#include "plan/static_memory.h"
#include "search/chunk_sweep.h"
#include "search/compare.h"
#include "support/scenarios.h"

using namespace moeplan;
using moeplan::test::Small;

TEST_CASE("verdict: out of memory above usable, tight under 5 % headroom") {
  CHECK(search::judge(1000, 1000, 1100).verdict == search::Verdict::tight);
  CHECK(search::judge(1001, 1000, 1100).verdict == search::Verdict::oom);
  CHECK(search::judge(950, 1000, 1100).verdict == search::Verdict::fits);  // exactly 5 %
  CHECK(search::judge(951, 1000, 1100).verdict == search::Verdict::tight);
  CHECK(search::judge(1100, 1000, 1100).headroom_fraction == doctest::Approx(-0.1));
}

TEST_CASE("quantiles are nearest-rank") {
  const auto d = search::distribution({4, 1, 3, 2});
  CHECK(d.p50 == 2);  // ceil(0.5 * 4) = 2nd
  CHECK(d.p95 == 4);  // ceil(3.8) = 4th
  CHECK(d.max == 4);
  CHECK(search::distribution({7}).p50 == 7);
}

TEST_CASE("throughput follows from the step: tokens, FLOPs and MFU") {
  const auto e = search::evaluate(Small{}.make(), 1);
  CHECK(e.tokens_per_s_per_gpu == doctest::Approx(8.0 * 256 / e.step_s / 4));
  CHECK(e.model_flops_per_gpu == doctest::Approx(e.tokens_per_s_per_gpu * e.flops_per_token));
  CHECK(e.mfu == doctest::Approx(e.model_flops_per_gpu / 989e12).epsilon(0.01));
  CHECK(e.fit.device_bytes == e.worst.device_bytes());
}

TEST_CASE("several iterations give distributions: one overflowing iteration of two is a probability of one half") {
  Small small;
  small.routing = "{ trace: ../tests/data/search/two_steps.csv }";
  small.mbs = 2;
  small.gbs = 8;
  small.seq = 1024;
  auto scenario = std::make_shared<scenario::Scenario>(*small.make());
  scenario->training.iterations = 2;
  auto e = search::evaluate(scenario, 1);
  CHECK(e.peak_distribution.max > e.peak_distribution.p50);  // step 1 is skewed
  CHECK(e.overflow_probability == 0);
  // On a card just below what the skewed step reserves, giving back what is cached is enough, and is said.
  double card = e.peak_distribution.max;
  auto tight = e;
  while (tight.worst.retries == 0 && tight.overflow_probability == 0) {
    card -= 64 * 1024;
    scenario->hardware.device.memory_capacity.value = card / scenario->memory.usable_fraction;
    tight = search::evaluate(scenario, 1);
  }
  CHECK(tight.overflow_probability == 0);
  CHECK(tight.fit.verdict == search::Verdict::tight);
  CHECK(tight.worst.retries > 0);
  REQUIRE(tight.warnings.size() == 1);
  CHECK(tight.warnings[0].find("fits only because the allocator gives cached memory back") != std::string::npos);
  // As the card shrinks, step 1 is the first that does not fit.
  for (; e.overflow_probability == 0; card -= 256 * 1024) {
    scenario->hardware.device.memory_capacity.value = card / scenario->memory.usable_fraction;
    e = search::evaluate(scenario, 1);
  }
  CHECK(e.overflow_probability == 0.5);
  CHECK(e.fit.verdict == search::Verdict::oom);
  REQUIRE(e.failure.has_value());
  CHECK(e.failure->iteration == 1);
}

TEST_CASE("recommendation: fastest that fits with headroom, else fastest that fits, else lowest peak") {
  auto point = [](const char* rule, std::int64_t chunks, std::int64_t device, double seconds) {
    search::ChunkPoint p{rule, chunks, {}};
    p.evaluation.fit = search::judge(device, 1000, 1100);
    p.evaluation.step_s = seconds;
    return p;
  };
  const policy::MemfineSettings settings;
  const auto a = search::recommend(
      {point("none", 0, 1200, 1.0), point("fixed", 2, 980, 1.1), point("fixed", 4, 900, 1.2)}, settings);
  CHECK(a.rule == "fixed");
  CHECK(a.chunks == 4);  // 2 chunks are faster, but tight
  CHECK(a.fits);
  const auto b = search::recommend(
      {point("none", 0, 1200, 1.0), point("fixed", 2, 990, 1.1), point("fixed", 4, 980, 1.2)}, settings);
  CHECK(b.chunks == 2);
  CHECK(b.fits);
  const auto c = search::recommend({point("none", 0, 1200, 1.0), point("fixed", 2, 1100, 1.1)}, settings);
  CHECK(c.chunks == 2);
  CHECK_FALSE(c.fits);
  const auto d = search::recommend({point("none", 0, 500, 1.0), point("fixed", 2, 400, 1.0005)}, settings);
  CHECK(d.chunks == 2);  // as fast within 0.1 %, and lower
}

TEST_CASE("compare: every policy on the same loads: unknown names are refused together") {
  Small small;
  small.routing = "{ lognormal: { sigma: 1.0, seed: 2 } }";
  small.seq = 2048;
  const auto scenario = small.make();
  const auto results =
      search::compare_policies(*scenario, {"none", "recompute-moe", "memfine", "lrmoe", "memfine+lrmoe"}, {}, 1);
  REQUIRE(results.size() == 5);
  CHECK(results[1].evaluation.worst.peak.allocated_bytes < results[0].evaluation.worst.peak.allocated_bytes);
  CHECK(results[2].evaluation.worst.peak.allocated_bytes < results[0].evaluation.worst.peak.allocated_bytes);
  CHECK(results[0].evaluation.routing.retained_row_share == 1);
  CHECK(results[3].evaluation.routing.retained_row_share < 1);
  CHECK(results[3].evaluation.routing.retained_row_share >= 0.5);  // rho_min
  CHECK(results[3].evaluation.routing.retained_score_share > results[3].evaluation.routing.retained_row_share);
  try {
    search::compare_policies(*scenario, {"memfin", "none", "lrmo"}, {"--policies", 0, 0, ""}, 1);
    FAIL("unknown policies were accepted");
  } catch (const base::Error& error) {
    CHECK(error.faults().size() == 2);
    CHECK(std::string(error.what()).find("memfine") != std::string::npos);
  }
}

TEST_CASE("the result does not depend on threads") {
  Small small;
  small.routing = "{ lognormal: { sigma: 1.0, seed: 2 } }";
  small.policies = "{ lrmoe: {} }";
  const auto scenario = small.make();
  const auto one = search::evaluate(scenario, 1), four = search::evaluate(scenario, 4);
  CHECK(one.step_s == four.step_s);
  CHECK(one.worst.peak.allocated_bytes == four.worst.peak.allocated_bytes);
  CHECK(one.routing.retained_score_share == four.routing.retained_score_share);
}

TEST_CASE("quickstart: MemFine's peak lies below the plain one") {
  const auto scenario = moeplan::test::scenario_file("quickstart.yaml");
  const auto results = search::compare_policies(*scenario, {"none", "memfine"}, {}, 0);
  CHECK(results[1].evaluation.worst.peak.allocated_bytes < results[0].evaluation.worst.peak.allocated_bytes);
  CHECK(results[1].evaluation.worst.routed_peak_bytes < results[0].evaluation.worst.routed_peak_bytes);
}

TEST_CASE("closed-form accounting judges the stage with the largest total, and each iteration by itself") {
  Small small;
  small.model = "tiny-mla";
  small.pp = 2;
  small.gbs = 16;
  small.memory = "{ accounting: closed_form }";
  const auto e = search::evaluate(small.make(), 1);
  for (std::int64_t stage = 0; stage < 2; ++stage)
    CHECK(e.closed_form_total_bytes > static_cast<double>(plan::static_memory(*e.scenario, stage).steady_bytes()));
  CHECK(e.fit.device_bytes == std::llround(e.closed_form_total_bytes));

  small = Small{};
  small.routing = "{ trace: ../tests/data/search/two_steps.csv }";
  small.mbs = 2;
  small.seq = 1024;
  small.memory = "{ accounting: closed_form, recompute_granularity: full }";
  auto scenario = std::make_shared<scenario::Scenario>(*small.make());
  scenario->training.iterations = 2;
  const auto both = search::evaluate(scenario, 1);
  scenario->hardware.device.memory_capacity.value =
      (both.peak_distribution.p50 + both.peak_distribution.max) / 2 / scenario->memory.usable_fraction;
  CHECK(search::evaluate(scenario, 1).overflow_probability == 0.5);
}

TEST_CASE("what the adaptive rule chose counts every microbatch, expert group and iteration") {
  Small small;
  auto scenario = std::make_shared<scenario::Scenario>(*small.make());
  scenario->training.iterations = 3;
  const auto sweep = search::sweep_chunks(*scenario, {1}, 1);
  REQUIRE(sweep.chosen.size() == 1);
  // 2 microbatches, 4 GPUs / EP 2 = 2 groups, 3 iterations.
  CHECK(sweep.chosen[0].times == std::map<std::int64_t, std::int64_t>{{1, 12}});
}

TEST_CASE("imbalance is that of one step, not of the sum over iterations") {
  Small small;
  small.routing = "{ trace: ../tests/data/search/moving_hot_rank.csv }";
  auto scenario = std::make_shared<scenario::Scenario>(*small.make());
  scenario->training.iterations = 2;
  const auto e = search::evaluate(scenario, 1);
  // Each step alone: 3,072 of 4,096 on one of two members, 1.5 times the mean. Summed, both members have the same.
  CHECK(e.routing.max_over_mean_rank == doctest::Approx(1.5));
  CHECK(e.routing.layers[0].max_received_over_mean == doctest::Approx(1.5).epsilon(0.02));
}

TEST_CASE("a closed form that fits while the replay does not is said") {
  const auto e = search::evaluate(moeplan::test::scenario_file("papers/memfine/model-2-full.yaml"));
  CHECK(e.fit.verdict != search::Verdict::oom);
  REQUIRE(e.warnings.size() == 2);
  CHECK(e.warnings[0].find("runs out of memory") != std::string::npos);
  CHECK(e.warnings[1].find("the replay of tensors does not fit") != std::string::npos);
  CHECK(search::evaluate(Small{}.make()).warnings.empty());
}

TEST_CASE("dropped token copies are no work done: model FLOPs leave them out") {
  Small small;
  small.seq = 2048;
  const auto all = search::evaluate(small.make(), 1);
  small.policies = "{ capacity: { factor: 0.5 } }";
  const auto half = search::evaluate(small.make(), 1);
  CHECK(half.routing.dropped_share == doctest::Approx(0.5).epsilon(0.02));
  // tiny-moe: one MoE layer; 6 x 3 x 64 x (2 x 32) FLOPs a token for its routed experts.
  CHECK(all.flops_per_token - half.flops_per_token == doctest::Approx(half.routing.dropped_share * 6 * 3 * 64 * 64));
}
