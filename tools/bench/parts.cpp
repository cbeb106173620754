#include "parts.h"

#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <utility>

#include "cost/exchange.h"
#include "engine/step.h"
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

// Counts of DeepSeek-V3 with top-8 of 256 experts in 58 MoE layers, 4,096 tokens a sequence.
Overrides own_loads(std::int64_t replicas, std::int64_t microbatches) {
  const auto path = std::filesystem::temp_directory_path() /
                    ("moeplan-own-loads-" + std::to_string(replicas) + "-" + std::to_string(microbatches) + ".npy");
  write_own_loads(path.string(), microbatches, replicas, 58, 256, std::int64_t{4096} * 8);
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
Part step(std::string name, double target_s, double per_s, int repeats, const char* file, Overrides overrides) {
  return {std::move(name), target_s, per_s, false, repeats, [=](int) {
            const auto plan = std::make_shared<const plan::Plan>(plan::make_plan(load(file, overrides), 0, 2));
            return [plan] { return engine::run_step(*plan).ops; };
          }};
}

cost::Fabric fabric(std::int64_t ranks, double oversubscription) {
  return cost::plain_fabric({8, 360e9, 1e-6, 45e9, 5e-6, oversubscription}, ranks);
}

// Bytes of `ranks` sources to destinations whose weights fall as 1 / rank (Zipf 1), permuted by source.
std::vector<std::int64_t> zipf(std::int64_t ranks) {
  double sum = 0;
  for (std::int64_t d = 1; d <= ranks; ++d) sum += 1 / static_cast<double>(d);
  std::vector<std::int64_t> bytes(static_cast<std::size_t>(ranks * ranks));
  for (std::int64_t i = 0; i < ranks; ++i)
    for (std::int64_t j = 0; j < ranks; ++j) {
      if (i == j) continue;
      const auto place = static_cast<double>((j * 37 + i * 11) % ranks + 1);
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
  parts.push_back(step("engine, 19.6 M operations in lockstep", 0, 200e6, 5, kLarge, {}));
  parts.push_back(step("engine, balanced 2048 GPUs", 0, 0, 20, kLarge, kBalanced));
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
