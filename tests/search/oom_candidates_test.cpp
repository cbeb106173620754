#include "search/oom_candidates.h"

#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "plan/plan.h"
#include "support/scenarios.h"

using namespace moeplan;
using search::OomCandidate;
using search::OomSource;

namespace {

using Settings = std::vector<std::pair<std::string, std::string>>;

plan::Plan plan_of(const std::string& yaml, const Settings& settings = {}) {
  scenario::Options options;
  options.data_dirs = {MOEPLAN_SOURCE_DIR "/tests/data"};
  options.overrides = settings;
  const config::Node root = config::parse_yaml(yaml, "test.yaml");
  return plan::make_plan(
      std::make_shared<const scenario::Scenario>(scenario::resolve_scenario(
          root, "test.yaml", MOEPLAN_SOURCE_DIR "/scenarios", options, scenario::make_trace_cache())),
      0, 1);
}

std::vector<OomCandidate> named(const plan::Plan& plan, const std::string& size) {
  return search::oom_candidates(plan, search::parse_oom_line("CUDA out of memory. Tried to allocate " + size));
}

bool has(const std::string& text, const char* part) { return text.find(part) != std::string::npos; }

// Qwen3-30B-A3B: 48 layers of 128 experts, vocabulary 151,936.
const std::string k30b = R"(model: qwen3-30b-a3b
cluster: { hardware: b200-sxm, gpus: 8 }
parallel: { ep: 8 }
training: { micro_batch_size: 8, global_batch_size: 64, seq_length: 4096 }
routing: { balanced: true }
)";

}  // namespace

TEST_CASE("26.44 GiB: the experts of half of Qwen3-235B over 8 ranks") {
  // 94 / 2 layers x 128 / 8 experts x 3 x 4096 x 1536 x 2 B = 28,387,049,472 B = 26.4375 GiB.
  const plan::Plan plan = plan_of(R"(model: qwen3-235b-a22b
cluster: { hardware: ascend-910b-64gb, gpus: 32 }
parallel: { tp: 4, pp: 2, ep: 8 }
training: { micro_batch_size: 1, global_batch_size: 16, seq_length: 1024 }
routing: { balanced: true }
)");
  const auto found = named(plan, "26.44 GiB");
  REQUIRE_FALSE(found.empty());
  CHECK(found[0].match == OomCandidate::Match::exact);
  CHECK(found[0].source == OomSource::expert_parameters);
  CHECK(found[0].bytes == 28'387'049'472);
  CHECK(found[0].derivation == "47 layers x 16 experts x 3 x 4096 x 1536 x 2 B");
  CHECK(has(found[0].lever, "expert_model_parallel_size above 8"));
  CHECK(has(found[0].lever, "pipeline_model_parallel_size above 2"));
}

TEST_CASE("18.55, 9.27, 8.00 and 3.79 GiB: fp32 logits") {
  struct Case {
    const char* size;
    Settings settings;
    std::int64_t bytes;
  };
  const Case cases[] = {
      {"18.55 GiB", {}, 8LL * 4096 * 151'936 * 4},             // 18.547 GiB
      {"9.27 GiB", {{"mbs", "4"}}, 4LL * 4096 * 151'936 * 4},  // 9.273 GiB
      {"8.00 GiB",
       {{"mbs", "2"}, {"seq", "8192"}, {"model.vocab_size", "131072"}},
       2LL * 8192 * 131'072 * 4},                                                          // 2^33 B
      {"3.79 GiB", {{"mbs", "1"}, {"model.vocab_size", "248320"}}, 4096LL * 248'320 * 4},  // 3.789 GiB
  };
  for (const Case& c : cases) {
    CAPTURE(c.size);
    const auto found = named(plan_of(k30b, c.settings), c.size);
    REQUIRE_FALSE(found.empty());
    CHECK(found[0].match == OomCandidate::Match::exact);
    CHECK(found[0].source == OomSource::logits);
    CHECK(has(found[0].name, "(fp32)"));
    CHECK(found[0].bytes == c.bytes);
    CHECK(has(found[0].lever, "tensor_model_parallel_size above 1"));
  }
  // With 8 sequences the same 9.27 GiB are bf16 logits: 8 x 4096 x 151,936 x 2 B.
  const auto bf16 = named(plan_of(k30b), "9.27 GiB");
  REQUIRE_FALSE(bf16.empty());
  CHECK(bf16[0].source == OomSource::logits);
  CHECK(has(bf16[0].name, "(bf16)"));
}

TEST_CASE("3.56 GiB: Adam's second moment of a 30B model over 32 ranks under ZeRO-2") {
  // The report's model has 30.6e9 parameters: x 4 B / 32 = 3.562 GiB. This one has 30,532,122,624: 3.554 GiB, 0.15 %
  // less.
  const plan::Plan plan = plan_of(R"(model: qwen3-30b-a3b
cluster: { hardware: h100-sxm, gpus: 32 }
training: { micro_batch_size: 1, global_batch_size: 32, seq_length: 8192 }
optimizer: { sharding: zero2 }
routing: { balanced: true }
)");
  const auto found = named(plan, "3.56 GiB");
  REQUIRE_FALSE(found.empty());
  CHECK(found[0].match == OomCandidate::Match::near);
  CHECK(found[0].source == OomSource::optimizer_states);
  CHECK(has(found[0].name, "second moment"));
  CHECK(found[0].bytes == 30'532'122'624 / 32 * 4);
  CHECK(found[0].error_fraction == doctest::Approx(0.0015).epsilon(0.05));
  CHECK(has(found[0].lever, "cpu_offload"));
}

TEST_CASE("23.93 GiB: logits of packed tokens: the count is implied") {
  // 23.93 x 2^30 / (4 B x 248,320 / 2) = 51,737 tokens of the 63,488 that a sequence may have.
  const auto found = named(plan_of(k30b, {{"tp", "2"},
                                          {"ep", "4"},
                                          {"mbs", "1"},
                                          {"seq", "63488"},
                                          {"memory.recompute_granularity", "full"},
                                          {"model.vocab_size", "248320"}}),
                           "23.93 GiB");
  REQUIRE_FALSE(found.empty());
  CHECK(found[0].match == OomCandidate::Match::tokens);
  CHECK(found[0].source == OomSource::logits);
  CHECK(found[0].implied == 51'737);
  CHECK(found[0].most == 63'488);
}

TEST_CASE("a tolerance of 0.3 %, on both sides") {
  // fp32 logits of 8 x 4096 tokens: 18.547 GiB. +0.28 % = 18.599; +0.36 % = 18.613, beyond half a unit too.
  const plan::Plan plan = plan_of(k30b);
  const auto is_logits = [&](const std::string& size) {
    const auto found = named(plan, size);
    return !found.empty() && found[0].source == OomSource::logits && found[0].match != OomCandidate::Match::tokens;
  };
  CHECK(is_logits("18.599 GiB"));
  CHECK_FALSE(is_logits("18.613 GiB"));
  CHECK(is_logits("18.495 GiB"));
  CHECK_FALSE(is_logits("18.481 GiB"));
}

TEST_CASE("a tensor that routing sizes is named by the rows that the size implies, within what the ranks have") {
  // Rows of `expert input` are 2 x 4096 B each on this model; balanced: 8 x 2048 x 8 rows = 131,072 on every rank, 1
  // GiB.
  const std::string yaml = R"(model: qwen3-235b-a22b
cluster: { hardware: b200-sxm, gpus: 64 }
parallel: { pp: 2, ep: 8 }
training: { micro_batch_size: 8, global_batch_size: 256, seq_length: 2048 }
routing: { lognormal: { sigma: 0.4, seed: 1 } }
)";
  const plan::Plan plan = plan_of(yaml);
  const auto rows_of = [&](const std::string& size) {
    std::vector<OomCandidate> found;
    for (const OomCandidate& candidate :
         search::oom_candidates(plan, search::parse_oom_line("CUDA out of memory. Tried to allocate " + size), 100))
      if (candidate.match == OomCandidate::Match::rows && has(candidate.derivation, "8192 B a row"))
        found.push_back(candidate);
    return found;
  };
  const auto found = rows_of("1.10 GiB");
  REQUIRE_FALSE(found.empty());
  CHECK(found[0].implied == 144'179);  // 1.1 x 2^30 / 8192
  CHECK(found[0].least.value_or(0) < 131'072);
  CHECK(found[0].most.value_or(0) > 144'179);
  CHECK(found[0].rank >= 0);
  CHECK(found[0].layer >= 0);
  CHECK(has(found[0].lever, "memfine.chunks"));
  CHECK(rows_of("30.00 GiB").empty());  // 30 times the mean: no rank can receive more than 8
}

TEST_CASE("requests of 2 and 20 MiB name no tensor, for the allocator makes them for any small one") {
  CHECK(named(plan_of(k30b), "20.00 MiB").empty());
  CHECK(named(plan_of(k30b), "2.00 MiB").empty());
  CHECK(named(plan_of(k30b), "170.00 GiB").empty());
}
