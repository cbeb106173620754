#pragma once
#include <memory>
#include <string>

#include "config/document.h"
#include "scenario/resolve.h"
#include "scenario/scenario.h"

// Small scenarios for tests, written as a user would write them. Models of tests/data/models.
namespace moeplan::test {

inline std::shared_ptr<const scenario::Scenario> scenario_from(const std::string& yaml,
                                                               const std::string& base_dir = MOEPLAN_SOURCE_DIR
                                                               "/scenarios") {
  scenario::Options options;
  options.data_dirs = {MOEPLAN_SOURCE_DIR "/tests/data"};
  const config::Node root = config::parse_yaml(yaml, "test.yaml");
  return std::make_shared<const scenario::Scenario>(
      scenario::resolve_scenario(root, "test.yaml", base_dir, options, scenario::make_trace_cache()));
}

inline std::shared_ptr<const scenario::Scenario> scenario_file(
    const std::string& name, const std::vector<std::pair<std::string, std::string>>& overrides = {}) {
  scenario::Options options;
  options.overrides = overrides;
  return std::make_shared<const scenario::Scenario>(
      scenario::load_scenario(MOEPLAN_SOURCE_DIR "/scenarios/" + name, options));
}

// A scenario by its moving parts; everything else is small and balanced.
struct Small {
  std::string model = "tiny-moe";
  int gpus = 4, tp = 1, pp = 1, ep = 2;
  int mbs = 1, gbs = 8, seq = 256;
  std::string schedule = "1f1b";
  std::string memory = "{}";
  std::string optimizer = "{}";
  std::string policies;  // of moe
  std::string routing = "{ balanced: true }";
  std::string hardware = "h100-sxm";
  std::shared_ptr<const scenario::Scenario> make() const {
    std::string text =
        "model: " + model + "\ncluster: { hardware: " + hardware + ", gpus: " + std::to_string(gpus) + " }\n";
    text += "parallel: { tp: " + std::to_string(tp) + ", pp: " + std::to_string(pp) + ", ep: " + std::to_string(ep) +
            " }\n";
    text += "training: { micro_batch_size: " + std::to_string(mbs) + ", global_batch_size: " + std::to_string(gbs) +
            ", seq_length: " + std::to_string(seq) + ", schedule: " + schedule + " }\n";
    text += "memory: " + memory + "\noptimizer: " + optimizer + "\n";
    if (!policies.empty()) text += "moe: { policies: " + policies + " }\n";
    if (!routing.empty()) text += "routing: " + routing + "\n";
    return scenario_from(text);
  }
};

// Two replicas of eight microbatches through `pp` stages of one dense and three MoE layers.
inline Small staged(const std::string& schedule, int pp) {
  Small small;
  small.model = "tiny-mla";
  small.schedule = schedule;
  small.gpus = 2 * pp;
  small.pp = pp;
  small.gbs = 2 * 8;
  return small;
}

}  // namespace moeplan::test
