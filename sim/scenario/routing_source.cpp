#include "scenario/routing_source.h"

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "base/check.h"
#include "scenario/trace_cache.h"

namespace moeplan::scenario {
namespace {

// The side of the model that a disagreement is about.
base::Where model_place(const std::string& what, const model::Architecture& arch) {
  if (what.find("layer") != std::string::npos) return arch.where_layers;
  if (what.find("top") != std::string::npos) return arch.where_top_k;
  return arch.where_experts;
}

routing::StepShape step_shape(const Scenario& scenario) {
  routing::StepShape shape;
  shape.seq_length = scenario.training.seq_length;
  shape.micro_batch_size = scenario.training.micro_batch_size;
  shape.data_parallel = scenario.layout.dp();
  shape.microbatches = scenario.microbatches();
  shape.moe_layers = std::max<std::int64_t>(1, scenario.model.moe_layer_count());
  shape.experts = std::max<std::int64_t>(1, scenario.model.moe.experts);
  shape.top_k = std::max<std::int64_t>(1, scenario.model.moe.top_k);
  return shape;
}

}  // namespace

std::shared_ptr<const routing::Trace> read_scenario_trace(const Raw& raw, const model::Architecture& arch,
                                                          const std::string& base_dir, TraceCache& cache,
                                                          base::Faults& faults) {
  if (raw.routing.kind != RawRouting::Kind::trace) return nullptr;
  const base::Where where = raw.places.where("routing.trace");
  // A path of an option starts where the command runs, a path of the file where the file is.
  const bool from_option = where.line == 0;
  const std::string path =
      from_option ? raw.routing.trace : (std::filesystem::path(base_dir) / raw.routing.trace).string();
  std::error_code failed;
  if (!std::filesystem::exists(routing::split_trace_path(path).file, failed)) {
    faults.add(where, "expected a file or folder with a trace, '" + path + "' does not exist");
    return nullptr;
  }
  const std::size_t before = faults.size();
  std::shared_ptr<const routing::Trace> trace;
  try {
    trace = cache.get(path, raw.routing.trace);
  } catch (const base::Error& error) {
    for (const base::Fault& fault : error.faults()) {
      std::vector<base::Where> also = fault.also;
      also.push_back(where);
      faults.add(fault.where, fault.message, fault.hint, std::move(also));
    }
    return nullptr;
  }
  const std::vector<int> layers = arch.moe_layer_ids();
  for (const auto& [what, message] :
       routing::trace_faults(*trace, arch.moe.experts, arch.moe.top_k, layers, raw.routing.map)) {
    const bool of_map = what.starts_with("map");
    const std::string hint =
        what == "layers" ? "routing.map: { layers: cyclic } lets the model read a trace of other layers" : "";
    // A fault of one row stands in the trace's own file.
    int line = 0;
    if (!of_map && std::sscanf(message.c_str(), "line %d: ", &line) == 1) {
      faults.add({raw.routing.trace, line, 0, {}}, message.substr(message.find(": ") + 2), hint,
                 {where, model_place(what, arch)});
      continue;
    }
    faults.add(of_map ? raw.places.where("routing.map.layers") : where, message, hint, {model_place(what, arch)});
  }
  return faults.size() == before ? trace : nullptr;
}

void set_loads(Scenario& scenario, const RawRouting& stated, const std::shared_ptr<const routing::Trace>& trace) {
  const routing::StepShape shape = step_shape(scenario);
  scenario.seed = stated.seed;
  switch (stated.kind) {
    case RawRouting::Kind::none:
    case RawRouting::Kind::balanced:
      scenario.loads = routing::make_balanced(shape);
      scenario.routing_label = scenario.model.moe_layer_count() == 0 ? "none" : "balanced";
      return;
    case RawRouting::Kind::lognormal:
      scenario.loads = routing::make_lognormal(shape, stated.sigma, stated.seed, stated.draws);
      scenario.routing_label = "lognormal";
      return;
    case RawRouting::Kind::trace:
      MOEPLAN_CHECK(trace != nullptr, "loads of a trace that was not read");
      scenario.routing_label = "trace";
      scenario.loads = routing::make_trace_loads(trace, shape, stated.map, stated.resample, stated.seed);
      return;
  }
}

}  // namespace moeplan::scenario
