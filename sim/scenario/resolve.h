#pragma once
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "config/document.h"
#include "routing/trace.h"
#include "scenario/scenario.h"

// From files to a Scenario: the one place where faults that several files make together are found.
namespace moeplan::scenario {

struct Options {
  std::vector<std::string> data_dirs;  // --data
  std::vector<std::pair<std::string, std::string>>
      overrides;  // --set: (key, value); short names (TP, ep, mbs, gbs, seq, ...), Megatron names and dotted paths
  std::int64_t iterations = 1;  // --iterations
  double limit = 1.0;           // --limit: factor on the bounds of work
};

// A dotted path of the scenario file for a key as people type it: "EP", "ep", "expert_model_parallel_size",
// "expert-model-parallel-size" -> "parallel.expert_model_parallel_size"; "memfine.chunks" ->
// "moe.policies.memfine.chunks"; "model.vocab_size" stays (it overrides the model file). Unknown: an Error with the
// nearest name; `origin` is the option text.
std::string scenario_path(const std::string& key, const std::string& origin);
// Every key that scenario_path knows, with its short names: (path, short names joined by ", ").
std::vector<std::pair<std::string, std::string>> scenario_keys();

// "a.b=c" -> ("a.b", "c"); an Error naming the option when there is no '='.
std::pair<std::string, std::string> split_override(const std::string& text, const std::string& option);
// All of them. Where one cannot be split nothing is resolved, so the keys of all are checked here, in the same go.
std::vector<std::pair<std::string, std::string>> split_overrides(const std::vector<std::string>& texts,
                                                                 const std::string& option, base::Faults& faults);

// Traces that were read once, shared by the variants of a sweep; keyed by path. Thread-safe.
class TraceCache;
std::shared_ptr<TraceCache> make_trace_cache();

// Reads and checks everything. All faults of the scenario file at once; then those of the model and profile, then those
// that files make together (with both places).
Scenario load_scenario(const std::string& path, const Options& options,
                       const std::shared_ptr<TraceCache>& cache = nullptr);

// As load_scenario, from a document already parsed; `base_dir`: relative paths of the scenario start here.
Scenario resolve_scenario(const config::Node& root, const std::string& name, const std::string& base_dir,
                          const Options& options, const std::shared_ptr<TraceCache>& cache);

}  // namespace moeplan::scenario
