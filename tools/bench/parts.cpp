#include "parts.h"

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <utility>
#include <vector>

#include "cost/exchange.h"
#include "engine/step.h"
#include "graph.h"
#include "own_loads.h"
#include "plan/plan.h"
#include "scenario/resolve.h"
#include "search/evaluate.h"
#include "search/memory_timeline.h"

namespace moeplan::bench {

namespace {

using Overrides = std::vector<std::pair<std::string, std::string>>;
using Shared = std::shared_ptr<const scenario::Scenario>;

constexpr const char* kLarge = "scenarios/deepseek-v3-2048xh800.yaml";
constexpr const char* kSmall = "scenarios/deepseek-v3-256xgb200.yaml";
const Overrides kBalanced = {{"routing", "{ balanced: true }"}};

Shared load(const char* file, Overrides overrides) {
  scenario::Options options;
  options.overrides = std::move(overrides);
  options.limit = 100;
  return std::make_shared<const scenario::Scenario>(scenario::load_scenario(file, options));
}

Overrides with(Overrides a, const Overrides& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

Overrides size(std::int64_t gpus, std::int64_t batch) {
  return {{"gpus", std::to_string(gpus)}, {"gbs", std::to_string(batch)}};
}

// What one replica routes in a microbatch: DeepSeek-V3 with top-8 of 256 experts in 58 MoE layers, 4,096 tokens a
// sequence; Mixtral with top-2 of 8 in 32 layers.
struct Routed {
  std::int64_t layers, experts, rows;
};
constexpr Routed kDeepSeek = {58, 256, std::int64_t{4096} * 8}, kMixtral = {32, 8, std::int64_t{4096} * 2};

Overrides own_loads(std::int64_t replicas, std::int64_t microbatches, const Routed& routed = kDeepSeek) {
  const auto path = std::filesystem::temp_directory_path() /
                    ("moeplan-own-loads-" + std::to_string(replicas) + "-" + std::to_string(microbatches) + "-" +
                     std::to_string(routed.experts) + ".npy");
  write_own_loads(path.string(), microbatches, replicas, routed.layers, routed.experts, routed.rows);
  return {{"routing", "{ trace: " + path.string() + ", map: { layers: cyclic } }"}};
}

Part evaluation(std::string name, double target_s, int repeats, const char* file, std::function<Overrides()> overrides,
                bool counted = false) {
  return {std::move(name), target_s, 0, counted, repeats, [=](int threads) {
            const Shared scenario = load(file, overrides());
            return [=] { return search::evaluate(scenario, threads).ops; };
          }};
}

// One step in time alone, without memory.
Part step(std::string name, double target_s, double per_s, int repeats, const char* file,
          std::function<Overrides()> overrides) {
  return {std::move(name), target_s, per_s, false, repeats, [=](int) {
            const auto plan = std::make_shared<const plan::Plan>(plan::make_plan(load(file, overrides()), 0, 2));
            return [plan] { return engine::run_step(*plan).ops; };
          }};
}

// The recurrence over a graph in memory, for `Lanes` scenarios at once.
template <std::size_t Lanes>
Part graph(std::string name, double per_s) {
  return {std::move(name), 0, per_s, true, 5, [](int) {
            struct Run {
              Graph graph{10'000'000};
              std::vector<std::uint32_t> duration_ps = graph.durations(Lanes);
              std::vector<std::int64_t> end_ps;
            };
            return [run = std::make_shared<Run>()] {
              const auto lanes = static_cast<std::int64_t>(Lanes);
              return run->graph.template makespan_ps<Lanes>(run->duration_ps, run->end_ps) > 0
                         ? run->graph.ops() * lanes
                         : 0;
            };
          }};
}

// Own loads on jobs of the same program and 4 microbatches, EP 64 over 16 stages.
Part own_series(std::int64_t gpus) {
  return step("engine, own loads, 4 microbatches, " + std::to_string(gpus) + " GPUs", 0, 0, 3, kLarge,
              [=] { return with(size(gpus, gpus / 16 * 4), own_loads(gpus / 16, 4)); });
}

cost::Fabric fabric(std::int64_t ranks, double oversubscription) {
  return cost::plain_fabric({8, 360e9, 1e-6, 45e9, 5e-6, oversubscription}, ranks);
}

// Bytes of `ranks` sources to destinations whose weights fall as 1 / rank (Zipf 1). All sources have the same order of
// destinations: the experts that are hot are hot for everyone, so the hottest rank receives most.
std::vector<std::int64_t> zipf(std::int64_t ranks) {
  double sum = 0;
  for (std::int64_t d = 1; d <= ranks; ++d) sum += 1 / static_cast<double>(d);
  std::vector<std::int64_t> bytes(static_cast<std::size_t>(ranks * ranks));
  for (std::int64_t i = 0; i < ranks; ++i)
    for (std::int64_t j = 0; j < ranks; ++j) {
      if (i == j) continue;
      const auto place = static_cast<double>(j * 37 % ranks + 1);  // 37 is coprime: hot ranks lie on many nodes
      bytes[static_cast<std::size_t>(i * ranks + j)] = std::llround(1e6 * static_cast<double>(ranks) / sum / place);
    }
  return bytes;
}

Part exchange(std::string name, double target_s, std::vector<std::int64_t> bytes, std::int64_t ranks, double blocking,
              bool fair, std::int64_t times = 1) {
  return {std::move(name), target_s, 0, true, 5, [=](int) {
            return [=, links = fabric(ranks, blocking)] {
              double sum = 0;
              for (std::int64_t t = 0; t < times; ++t)
                sum += fair ? cost::exchange_time(bytes, links).l1_s : cost::exchange_bound_s(bytes, links);
              return sum > 0 ? std::int64_t{0} : std::int64_t{-1};
            };
          }};
}

}  // namespace

std::vector<Part> all_parts() {
  const auto fixed = [](Overrides overrides) { return [overrides] { return overrides; }; };
  std::vector<std::int64_t> uniform(std::size_t{1024} * 1024, 1'000'000);
  for (std::size_t i = 0; i < 1024; ++i) uniform[i * 1024 + i] = 0;
  std::vector<Part> parts;
  parts.push_back(graph<1>("recurrence over a graph of 10 M operations", 200e6));
  parts.push_back(graph<4>("the same, 4 scenarios at once", 200e6));
  parts.push_back(step("engine, 19.6 M operations in lockstep", 0, 200e6, 5, kLarge, fixed({})));
  parts.push_back(step("engine, balanced 2048 GPUs", 0, 0, 20, kLarge, fixed(kBalanced)));
  parts.push_back(step("engine, own loads, 4 microbatches, 64 GPUs", 0, 0, 3, kLarge, [] {
    return with(with(size(64, 256), {{"parallel", "{ pp: 1, ep: 64 }"}}), own_loads(64, 4));
  }));
  for (const std::int64_t gpus : {1024, 4096, 16384}) parts.push_back(own_series(gpus));
  parts.push_back(step("engine, 65536 GPUs in rows of one", 0, 0, 1, "scenarios/mixtral-8x7b-64xa100.yaml", [] {
    return with(with(size(65536, 65536), {{"parallel", "{ ep: 1 }"}}), own_loads(65536, 1, kMixtral));
  }));
  parts.push_back(evaluation("step of 256 GPUs, shares by layer", 0.1, 5, kSmall,
                             fixed({{"routing", "{ lognormal: { sigma: 0.3, seed: 1 } }"}})));
  parts.push_back(evaluation("step of 2048 GPUs, shares by layer", 1, 3, kLarge, fixed({})));
  parts.push_back(evaluation("step of 16384 GPUs, shares by layer", 8, 1, kLarge, fixed(size(16384, 61440))));
  parts.push_back(
      evaluation("step of 256 GPUs, own loads of every rank", 0.1, 1, kSmall, [] { return own_loads(64, 32); }));
  parts.push_back(
      evaluation("step of 2048 GPUs, own loads of every rank", 1, 1, kLarge, [] { return own_loads(128, 60); }));
  parts.push_back(
      evaluation("balanced step of 16384 GPUs, folded", 0.05, 5, kLarge, fixed(with(size(16384, 61440), kBalanced))));
  parts.push_back(
      evaluation("balanced 1024 GPUs, warm", 0.001, 10, kLarge, fixed(with(size(1024, 1024), kBalanced)), true));
  parts.push_back({"balanced 1024 GPUs, warm, with a memory timeline", 0.02, 0, false, 5, [](int threads) {
                     const Shared scenario = load(kLarge, with(size(1024, 1024), kBalanced));
                     return [=] {
                       search::memory_timeline(scenario, 0, threads);
                       return search::evaluate(scenario, threads).ops;
                     };
                   }});
  parts.push_back(evaluation("quickstart, warm", 0.05, 5, "scenarios/quickstart.yaml", fixed({}), true));
  parts.push_back(exchange("exchange of 64 skewed ranks, blocking 4:1, L1", 0.05, zipf(64), 64, 4, true));
  parts.push_back(exchange("exchange of 64 skewed ranks, L0", 20e-6, zipf(64), 64, 4, false));
  parts.push_back(exchange("exchange of 256 skewed ranks, blocking 4:1, L1", 0.4, zipf(256), 256, 4, true));
  parts.push_back(exchange("uniform exchange of 1024 ranks, L1", 0.05, std::move(uniform), 1024, 4, true));
  parts.push_back(exchange("256 exchanges of 64 skewed ranks, L0", 0.005, zipf(64), 64, 4, false, 256));
  return parts;
}

}  // namespace moeplan::bench
