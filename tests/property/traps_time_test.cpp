#include <doctest/doctest.h>
#include <stdlib.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "cli/support.h"
#include "engine/step.h"
#include "memory/replay.h"
#include "plan/plan.h"
#include "report/report.h"
#include "search/evaluate.h"
#include "streams.h"
#include "support/scenarios.h"

// Mistakes that planners of time and throughput have been caught in; those of memory are in traps_memory_test.cpp.
using namespace moeplan;
using moeplan::test::scenario_from;
using moeplan::test::Small;

namespace {

plan::Plan plan_of(const std::shared_ptr<const scenario::Scenario>& scenario) {
  return plan::make_plan(scenario, 0, 1);
}

double step_s(const std::shared_ptr<const scenario::Scenario>& scenario) {
  return engine::run_step(plan_of(scenario)).step_s;
}

// Four layers of DeepSeek-V3 on 8 GPUs, where the device and not the host sets the pace.
std::shared_ptr<const scenario::Scenario> deepseek(const std::string& more, const std::string& routing) {
  return scenario_from(
      "model: deepseek-v3-4l\ncluster: { hardware: h100-sxm, gpus: 8 }\n" + more +
      "\ntraining: { micro_batch_size: 1, global_batch_size: 8, seq_length: 4096 }\nrouting: " + routing + "\n");
}

}  // namespace

TEST_CASE("trap 7: kernels that overlap are not added up: the step is shorter than their sum, its parts are the step") {
  // Zero3 gathers parameters beside the compute.
  const auto plan = plan_of(deepseek("parallel: { ep: 8 }\noptimizer: { sharding: zero3 }", "{ balanced: true }"));
  property::StreamTimes streams(plan);
  const auto run = engine::run_max_plus(streams);
  const auto step = engine::run_step(plan);
  CHECK(streams.all_ps(0) > run.makespan_ps);
  for (const auto& rank : step.ranks) CHECK(rank.parts.total() == doctest::Approx(step.step_s).epsilon(1e-9));
}

TEST_CASE("trap 8: results say what they assume of routing") {
  Small small;
  const auto source = [&](const std::string& routing) {
    small.routing = routing;
    const auto e = search::evaluate(small.make(), 1);
    CHECK(report::run_text(e).find("routing  " + e.routing.source.substr(0, 8)) != std::string::npos);
    CHECK(report::run_json(e).find("\"source\": \"" + e.routing.source) != std::string::npos);
    return e.routing.source;
  };
  CHECK(source("{ balanced: true }").find("balanced") != std::string::npos);
  CHECK(source("{ lognormal: { sigma: 0.4 } }").find("log-normal") != std::string::npos);
  CHECK(source("{ trace: ../tests/data/plan/counts.csv }").find("counts.csv") != std::string::npos);
}

TEST_CASE("trap 9: at EP 1 skew costs next to nothing, over 8 ranks it does") {
  const auto tax = [](int ep) {
    const std::string layout = "parallel: { ep: " + std::to_string(ep) + " }";
    return step_s(deepseek(layout, "{ lognormal: { sigma: 0.8 } }")) / step_s(deepseek(layout, "{ balanced: true }"));
  };
  CHECK(tax(1) < 1.02);  // every rank computes the same rows in any case; tiles fill a little otherwise
  CHECK(tax(8) > 1.05);
}

TEST_CASE("trap 10: a step of more layers is not so many times a step of fewer: loss and embedding come once") {
  const auto step = [](int layers) {
    scenario::Options options;
    options.data_dirs = {MOEPLAN_SOURCE_DIR "/tests/data"};
    options.overrides = {{"model.layers", "[ { kind: dense, count: " + std::to_string(layers) + " } ]"}};
    const config::Node root = config::parse_yaml(
        "model: llama3-70b-12l\ncluster: { hardware: h100-sxm, gpus: 8 }\nparallel: { tp: 8 }\n"
        "training: { micro_batch_size: 1, global_batch_size: 4, seq_length: 4096 }\n",
        "test.yaml");
    return step_s(std::make_shared<const scenario::Scenario>(
        scenario::resolve_scenario(root, "test.yaml", ".", options, scenario::make_trace_cache())));
  };
  const double three = step(3), six = step(6), nine = step(9);
  CHECK(nine - six == doctest::Approx(six - three).epsilon(0.02));  // a layer costs what a layer costs
  CHECK(six < 1.95 * three);
}

TEST_CASE("trap 13: recompute of core attention gains no time, and with flash attention saves next to nothing") {
  const std::string layout = "parallel: { ep: 8 }\nmemory: ";
  const auto none = deepseek(layout + "{}", "{ balanced: true }");
  const auto core =
      deepseek(layout + "{ recompute_granularity: selective, recompute_modules: [core_attn] }", "{ balanced: true }");
  CHECK(step_s(core) > step_s(none));
  const auto a = memory::replay(plan_of(none), 0), b = memory::replay(plan_of(core), 0);
  const auto activations = static_cast<double>(a.peak.allocated_bytes - a.static_bytes);
  CHECK(b.peak.allocated_bytes <= a.peak.allocated_bytes);
  CHECK(static_cast<double>(a.peak.allocated_bytes - b.peak.allocated_bytes) < 0.01 * activations);
}

TEST_CASE("trap 15: MFU is of dense bf16 whatever the precision, and dropped tokens are no work done") {
  const auto bf16 = search::evaluate(deepseek("parallel: { ep: 8 }", "{ balanced: true }"), 1);
  CHECK(bf16.mfu == doctest::Approx(bf16.model_flops_per_gpu / 989e12).epsilon(0.001));
  CHECK(report::run_text(bf16).find("of 989 TFLOP/s dense bf16") != std::string::npos);
  auto scenario = std::make_shared<scenario::Scenario>(*bf16.scenario);
  scenario->training.precision = scenario::Precision::fp8_tensorwise;
  const auto fp8 = search::evaluate(scenario, 1);
  CHECK(fp8.step_s <= bf16.step_s);
  CHECK(fp8.mfu ==
        doctest::Approx(fp8.model_flops_per_gpu / 1979e12).epsilon(0.001));  // of the fp8 peak, which the result names
  CHECK(report::run_json(fp8).find("\"precision\": \"fp8_tensorwise\"") != std::string::npos);
  // Half of the routed work dropped: its FLOPs are gone from the numerator. 3 MoE layers of top-8 experts of
  // 3 x 7168 x 2048, 6 FLOPs a parameter.
  const auto drop = search::evaluate(
      deepseek("parallel: { ep: 8 }\nmoe: { policies: { capacity: { factor: 0.5 } } }", "{ balanced: true }"), 1);
  CHECK(drop.routing.dropped_share == doctest::Approx(0.5).epsilon(0.02));
  CHECK(bf16.flops_per_token - drop.flops_per_token ==
        doctest::Approx(drop.routing.dropped_share * 6 * 3 * 8 * 3.0 * 7168 * 2048).epsilon(1e-9));
  CHECK(drop.mfu < bf16.mfu);
}

TEST_CASE("trap 16: environment variables that a launcher would set change no byte of a result") {
  const std::vector<std::string> command = {"run", cli::testing::kQuickstart, "--json", "-"};
  const auto before = cli::testing::moeplan(command);
  REQUIRE(before.status == 0);
  const std::vector<std::pair<const char*, const char*>> variables = {
      {"PYTORCH_CUDA_ALLOC_CONF", "expandable_segments:True"},
      {"CUDA_DEVICE_MAX_CONNECTIONS", "1"},
      {"NCCL_NVLS_ENABLE", "0"},
      {"NVTE_FUSED_ATTN", "0"},
      {"WORLD_SIZE", "4"},
      {"OMP_NUM_THREADS", "1"},
      {"LC_ALL", "de_DE.UTF-8"}};
  for (const auto& [name, value] : variables) ::setenv(name, value, 1);
  const auto after = cli::testing::moeplan(command);
  for (const auto& [name, value] : variables) ::unsetenv(name);
  CHECK(after.status == 0);
  CHECK(after.out == before.out);
  CHECK(after.err == before.err);
}
