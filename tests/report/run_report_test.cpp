#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "report/evaluation.h"
#include "report/report.h"
#include "report/run_tables.h"

namespace moeplan::report {
using namespace testing;
using nlohmann::json;

TEST_CASE("the first line of run is the verdict with rank, bytes and headroom") {
  const std::string text = run_text(small_evaluation());
  CHECK(text.substr(0, text.find('\n')) == "FITS  rank 2 peaks at 18.00 GiB of 36.00 GiB usable (50 % headroom)");
  CHECK(holds(text, "15.00 GiB allocated + 2.00 GiB fragmentation + 1.00 GiB outside the allocator"));
  CHECK(holds(text, "activations_moe 7.00 GiB"));
  CHECK(holds(text, "2.000 s: 100 tokens/s/GPU, 200.0 TFLOP/s/GPU, MFU 20 % of 1000 TFLOP/s dense bf16"));
  CHECK(holds(text, "a default that was taken"));
  CHECK(holds(text, "a setting without effect"));
  CHECK(widest_line(text) <= 110);
}

TEST_CASE("results hold no absolute path") {
  CHECK_FALSE(holds(run_text(small_evaluation()), "/data/"));
  const std::string text = run_json(small_evaluation());
  CHECK_FALSE(holds(text, "/data/"));
  CHECK_FALSE(holds(text, "/somewhere/"));
  CHECK(json::parse(text)["provenance"]["scenario"] == "small.yaml");
}

TEST_CASE("a whole run is told in days and GPU-hours when its tokens are stated") {
  auto scenario = small_scenario();
  CHECK(json::parse(run_json(small_evaluation(scenario)))["whole_run"].is_null());
  // 8640.8e3 tokens of 800 a step are 10801 steps of 2 s: 21602 s = 0.25002 days, times 4 GPUs / 3600 s = 24.0022
  // hours.
  scenario->training.total_tokens = 8640.8e3;
  const json run = json::parse(run_json(small_evaluation(scenario)))["whole_run"];
  CHECK(run["steps"] == 10801.0);
  CHECK(run["days"].get<double>() == doctest::Approx(21602.0 / 86400.0));
  CHECK(run["gpu_hours"].get<double>() == doctest::Approx(21602.0 / 3600.0 * 4.0));
  CHECK(holds(run_text(small_evaluation(scenario)), "10801 steps, 0.3 days, 24 GPU-hours"));
  // One token more than 10801 whole steps needs another step.
  scenario->training.total_tokens = 8640801.0;
  CHECK(json::parse(run_json(small_evaluation(scenario)))["whole_run"]["steps"] == 10802.0);
}

TEST_CASE("the JSON of run holds its minimum, and what is not modelled is null and named") {
  const json j = json::parse(run_json(small_evaluation()));
  CHECK(j["schema"] == "moeplan.run/1");
  CHECK(j["verdict"] == "FITS");
  CHECK(j["step_time_s"] == 2.0);
  CHECK(j["tokens_per_s_per_gpu"] == 100.0);
  CHECK(j["model_tflops_per_gpu"] == 200.0);
  CHECK(j["mfu"] == 0.2);
  const json& peak = j["peak_memory"];
  CHECK(peak["rank"] == 2);
  CHECK(peak["pipeline_stage"] == 0);
  CHECK(peak["phase"] == "steady iteration");
  CHECK(peak["op"] == "expert down");
  CHECK(peak["allocated_bytes"] == 15 * kGiB);
  CHECK(peak["device_bytes"] == 18 * kGiB);
  CHECK(peak["capacity_bytes"] == 64 * kGiB);
  CHECK(peak["headroom_fraction"] == 0.5);
  CHECK(peak["reserved_bytes"] == 17 * kGiB);
  CHECK(peak["allocator"]["failure"].is_null());
  CHECK(j["uncertainty"]["step_time_s"].is_null());
  CHECK(j["uncertainty"]["peak_allocated_bytes"].is_null());
  const std::string assumptions = j["assumptions"].dump();
  for (const char* key : {"uncertainty.step_time_s", "uncertainty.peak_allocated_bytes"}) {
    CHECK_MESSAGE(holds(assumptions, key), key);
  }
  CHECK(j["stages"][0]["ranks"] == json({0, 3}));
  CHECK(j["ranks"].size() == 4);
  CHECK(j["stages"][0]["peak_reserved_bytes"] == 17 * kGiB);
  CHECK(j["ranks"][1]["peak_allocated_bytes"] == 12 * kGiB);
  CHECK(j["ranks"][1]["peak_reserved_bytes"].is_null());
  CHECK(j["ranks"][2]["peak_reserved_bytes"] == 17 * kGiB);
  CHECK(j["time"]["compute"]["expert_s"] == 1.0);
  CHECK(j["time"]["exposed"]["ep_s"] == 0.6);
  CHECK(j["time"]["imbalance_wait_s"] == 0.4);
  CHECK(j["time"]["sum_s"] == 2.0);
  CHECK(j["routing"]["tokens"] == 800);
  CHECK(j["routing"]["max_over_mean_rank"] == 1.5);
  CHECK(j["closed_form"]["gap_fraction"] == -0.25);  // 6 GiB against 8
  CHECK(j["provenance"]["profile"] == "box");
  CHECK(j["provenance"]["seed"] == 7);
  CHECK(j["provenance"]["trace"] == "trace law: 50 tokens");
}

TEST_CASE(
    "the breakdown adds up: to what is allocated, with fragmentation to reserved, with what is outside to device") {
  const json peak = json::parse(run_json(small_evaluation()))["peak_memory"];
  std::int64_t sum = 0;
  for (const auto& [kind, bytes] : peak["breakdown"].items()) {
    if (kind != "context" && kind != "fragmentation" && bytes.is_number()) sum += bytes.get<std::int64_t>();
  }
  CHECK(sum == peak["allocated_bytes"].get<std::int64_t>());
  sum += peak["breakdown"]["fragmentation"].get<std::int64_t>();
  CHECK(sum == peak["reserved_bytes"].get<std::int64_t>());
  CHECK(sum + peak["breakdown"]["context"].get<std::int64_t>() == peak["device_bytes"].get<std::int64_t>());
  for (const char* kind : {"parameters", "gradients", "optimizer", "activations_dense", "activations_moe",
                           "dispatch_buffers", "logits_loss", "workspace", "communication", "given_static"}) {
    CHECK_MESSAGE(peak["breakdown"][kind].is_number_integer(), kind);
  }
  CHECK(peak["static_breakdown"]["parameters"] == 8 * kGiB);
  CHECK(peak["static_breakdown"]["activations_moe"] == 0);
}

TEST_CASE("seconds survive the way through JSON to the last bit") {
  search::Evaluation e = small_evaluation();
  e.step_s = 1.0 / 3.0;
  CHECK(json::parse(run_json(e))["step_time_s"].get<double>() == 1.0 / 3.0);
}

TEST_CASE("a number that is not finite becomes null") {
  search::Evaluation e = small_evaluation();
  e.mfu = std::numeric_limits<double>::infinity();
  CHECK(json::parse(run_json(e))["mfu"].is_null());
}

TEST_CASE("all ranks are listed up to 16, then the 8 highest and the lowest") {
  auto scenario = small_scenario();
  const auto lines = [](const std::string& text) { return std::count(text.begin(), text.end(), '\n'); };
  scenario->layout.world = 16;
  CHECK(lines(ranks_table(small_evaluation(scenario))) == 2 + 16);  // heading and column heads
  scenario->layout.world = 17;
  const std::string table = ranks_table(small_evaluation(scenario));
  CHECK(lines(table) == 2 + 9);
  CHECK(holds(table, "the 8 of 17"));
  // Rank 2 leads; ties keep the order of ranks, so the one with the least is the last, 16.
  CHECK(table.find("\n     2 ") < table.find("\n     0 "));
  CHECK(holds(table, "\n    16 "));
  CHECK_FALSE(holds(table, "\n    15 "));
}

TEST_CASE("several iterations show their distribution and how often memory overflows") {
  search::Evaluation e = small_evaluation();
  CHECK(iterations_table(e).empty());
  e.iterations = 4;
  e.overflow_probability = 0.25;
  CHECK(holds(iterations_table(e), "4 iterations, 25 % of them above what is usable"));
  CHECK(json::parse(run_json(e))["iterations"]["overflow_probability"] == 0.25);
}

TEST_CASE("retained shares are told where LRMoE selects") {
  search::Evaluation e = small_evaluation();
  CHECK_FALSE(holds(run_text(e), "LRMoE"));
  e.routing.selects = true;
  e.routing.retained_row_share = 0.9;
  e.routing.retained_score_share = 0.975;
  CHECK(holds(run_text(e), "backward keeps 90.00 % of the rows and 97.50 % of the score"));
}

}  // namespace moeplan::report
