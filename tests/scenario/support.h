#pragma once
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "config/document.h"
#include "scenario/resolve.h"
#include "support/holds.h"

// What the tests of scenarios share: a small scenario that is right, and ways to break it.
namespace moeplan::scenario::testing {

inline const std::string kData = std::string(MOEPLAN_SOURCE_DIR) + "/tests/data/scenario";

// tiny-moe: 1 dense and 3 MoE layers, 8 experts of which 2 a token, 8 heads with 4 key and value heads.
inline const std::string kSmall = R"(model: tiny-moe
cluster: { hardware: h100-sxm, gpus: 8 }
parallel:
  tensor_model_parallel_size: 1
  ep: 4
training:
  micro_batch_size: 1
  global_batch_size: 16
  seq_length: 128
memory: { usable_fraction: 0.5 }
moe: { dispatcher: alltoall, policies: { memfine: { rule: fixed, chunks: 4 } } }
routing: { balanced: true }
)";

using Settings = std::vector<std::pair<std::string, std::string>>;

inline Options options_with(Settings overrides = {}) {
  Options options;
  options.data_dirs = {kData};
  options.overrides = std::move(overrides);
  return options;
}

// Not overloads: a braced list of overrides would also make Options, by its first member.
inline Scenario resolve_with(const std::string& text, const Options& options,
                             const std::shared_ptr<TraceCache>& cache = {}) {
  return resolve_scenario(config::parse_yaml(text, "s.yaml"), "s.yaml", kData, options, cache);
}

inline Scenario resolve(const std::string& text = kSmall, Settings overrides = {}) {
  return resolve_with(text, options_with(std::move(overrides)));
}

// The faults of a scenario that must be refused; empty when it was taken.
inline std::vector<base::Fault> faults_with(const std::string& text, const Options& options) {
  try {
    resolve_with(text, options);
  } catch (const base::Error& error) {
    return error.faults();
  }
  return {};
}

inline std::vector<base::Fault> faults_of(const std::string& text, Settings overrides = {}) {
  return faults_with(text, options_with(std::move(overrides)));
}

// All faults as a user reads them.
inline std::string refusal(const std::string& text, Settings overrides = {}) {
  std::string result;
  for (const base::Fault& fault : faults_of(text, std::move(overrides))) result += base::format_fault(fault) + "\n";
  return result;
}

// kSmall with one part replaced.
inline std::string small_with(const std::string& from, const std::string& to) {
  std::string text = kSmall;
  const std::size_t at = text.find(from);
  if (at == std::string::npos) return "the text to replace is not there";
  return text.replace(at, from.size(), to);
}

using moeplan::test::holds;

inline bool holds(const std::vector<std::string>& lines, const std::string& part) {
  for (const std::string& line : lines) {
    if (holds(line, part)) return true;
  }
  return false;
}

}  // namespace moeplan::scenario::testing
