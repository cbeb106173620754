#include "scenario/resolve.h"

#include <cmath>
#include <filesystem>
#include <optional>
#include <utility>

#include "base/check.h"
#include "config/data.h"
#include "model/import_hf.h"
#include "scenario/limits.h"
#include "scenario/notes.h"
#include "scenario/overrides.h"
#include "scenario/raw.h"
#include "scenario/routing_source.h"
#include "scenario/rules.h"

namespace moeplan::scenario {
namespace {

void check_options(const Options& options, base::Faults& faults) {
  if (options.iterations < 1 || options.iterations > 1'000'000) {
    faults.add({"--iterations", 0, 0, {}},
               "expected an integer from 1 to 1000000, got " + std::to_string(options.iterations));
  }
  if (!(options.limit > 0.0) || !std::isfinite(options.limit)) {
    faults.add({"--limit", 0, 0, {}}, "expected a number > 0, got " + std::to_string(options.limit));
  }
}

// The names of a catalogue may hold dots, those of files end in .yaml.
std::string data_id(const std::string& reference, const std::string& base_dir) {
  const bool is_path = reference.find('/') != std::string::npos || reference.ends_with(".yaml") ||
                       reference.ends_with(".yml") || reference.ends_with(".json");
  return is_path ? model::model_name_of((std::filesystem::path(base_dir) / reference).string()) : reference;
}

struct LoadedFile {
  config::Node root;
  std::string id;
};

// The file that `reference` names. Like every path, one of an option starts where the command runs.
std::optional<LoadedFile> load_data(const char* kind, const std::string& reference, const base::Where& where,
                                    const std::string& base_dir, const Options& options, base::Faults& faults) {
  try {
    const config::Catalogue catalogue(kind, options.data_dirs);
    config::Node root = catalogue.load(reference, where.line == 0 ? std::string() : base_dir, where);
    return LoadedFile{std::move(root), data_id(catalogue.name_of(reference), base_dir)};
  } catch (const base::Error& error) {
    faults.add(error);
    return std::nullopt;
  }
}

// A model file, or a config.json turned into one first, so that overrides name keys of model files in both cases.
// `file` becomes the document that was read, overrides in it.
model::Architecture read_model(const std::string& id, config::Node& file, const std::vector<Override>& overrides,
                               base::Faults& faults, std::vector<std::string>& warnings) {
  std::vector<base::Fault> ignored;
  const std::size_t before = faults.size();
  const model::ModelFile model = model::model_file(file, id, faults, ignored);
  if (faults.size() != before) return {};
  for (const base::Fault& fault : ignored) warnings.push_back(base::format_fault(fault));
  file = with_model_overrides(model.root, overrides, faults);
  model::Architecture arch = model::read_architecture(file, id, faults);
  if (!model.imported || !overrides.empty()) return arch;
  arch.where_experts = model.where_experts;  // the places that the user can see
  arch.where_layers = model.where_layers;
  arch.where_top_k = model.where_top_k;
  arch.where_hidden = model.where_hidden;
  return arch;
}

Recompute resolved_recompute(const Raw& raw) {
  Recompute recompute;
  const bool by_layer =
      raw.policies.memfine && raw.policies.memfine->recompute == policy::MemfineSettings::Recompute::layer;
  recompute.granularity = raw.granularity.value_or(by_layer ? RecomputeGranularity::full : RecomputeGranularity::none);
  recompute.block_layers = raw.block_layers;
  recompute.uniform_layers = raw.uniform_layers;
  if (recompute.granularity == RecomputeGranularity::selective) {
    for (const auto& [module, where] : raw.modules) recompute.modules.insert(module);
  }
  return recompute;
}

Scenario assemble(const Raw& raw, const std::string& name, model::Architecture arch, topology::HardwareProfile hardware,
                  const Options& options) {
  Scenario scenario;
  scenario.name = name;
  scenario.model = std::move(arch);
  scenario.hardware = std::move(hardware);
  for (const Raw::Degraded& one : raw.degraded) scenario.hardware.degraded.push_back(one.link);
  scenario.layout = raw.layout;
  scenario.training = raw.training;
  scenario.training.iterations = options.iterations;
  scenario.optimizer = raw.optimizer;
  scenario.recompute = resolved_recompute(raw);
  scenario.memory = raw.memory;
  scenario.dispatch = raw.dispatch;
  scenario.policies = raw.policies;
  scenario.assumptions = assumptions_of(raw, scenario);
  scenario.warnings = warnings_of(raw, scenario);
  const std::vector<std::string> of_policies = policy_warnings(scenario);
  scenario.warnings.insert(scenario.warnings.end(), of_policies.begin(), of_policies.end());
  return scenario;
}

}  // namespace

Scenario resolve_scenario(const config::Node& root, const std::string& name, const std::string& base_dir,
                          const Options& options, const std::shared_ptr<TraceCache>& cache) {
  base::Faults faults;
  check_options(options, faults);
  const Overrides overrides = sort_overrides(options.overrides, faults);
  const config::Node file = with_scenario_overrides(root, overrides.scenario, faults);
  const Raw raw = read_raw(file, faults);
  faults.throw_if_any();

  std::optional<LoadedFile> model_file =
      raw.inline_model ? LoadedFile{*raw.inline_model, "model"}  // where the file has no name
                       : load_data("models", raw.model, raw.places.where("model"), base_dir, options, faults);
  const std::optional<LoadedFile> hardware_file =
      load_data("hw_profiles", raw.hardware, raw.places.where("cluster.hardware"), base_dir, options, faults);
  model::Architecture arch;
  topology::HardwareProfile hardware;
  std::vector<std::string> import_warnings;
  if (model_file) {
    arch = read_model(model_file->id, model_file->root, overrides.model, faults, import_warnings);
  }
  if (hardware_file) {
    const config::Node profile = with_hardware_overrides(hardware_file->root, overrides.hardware, faults);
    hardware = topology::read_hardware(profile, hardware_file->id, faults);
    choose_library(raw, overrides.hardware, hardware, faults);
  }
  faults.throw_if_any();
  MOEPLAN_CHECK(model_file.has_value(), "a model file without faults is there");

  const Sides sides{raw, arch, model_file->root};
  check_layout(sides, faults);
  if (topology::layout_faults(raw.layout).empty()) check_settings(sides, faults);
  check_hardware(raw, hardware, faults);
  check_moe(sides, faults);
  check_recompute(sides, faults);
  std::shared_ptr<const routing::Trace> trace;
  if (arch.moe_layer_count() > 0) {
    trace = read_scenario_trace(raw, arch, base_dir, cache ? *cache : *make_trace_cache(), faults);
  }
  const StageMap stages = resolve_stages(sides, faults);
  faults.throw_if_any();
  const std::string schedule = resolve_schedule(sides, stages, faults);
  faults.throw_if_any();

  Scenario scenario = assemble(raw, name, std::move(arch), std::move(hardware), options);
  scenario.stages = stages;
  scenario.layout.vpp = stages.vpp();
  // Megatron's default where it interleaves, whichever key made the virtual stages.
  if (!raw.places.stated("training.overlap_p2p_comm") && scenario.training.framework == Framework::megatron &&
      schedule == "interleaved" && scenario.layout.pp > 1 && stages.vpp() > 1) {
    scenario.training.overlap_p2p_comm = true;
    scenario.assumptions.push_back(
        "training.overlap_p2p_comm is not stated: true, Megatron's default with virtual stages");
  }
  scenario.training.schedule = schedule;
  scenario.warnings.insert(scenario.warnings.end(), import_warnings.begin(), import_warnings.end());
  check_sizes(scenario, raw.places, faults);
  faults.throw_if_any();
  set_loads(scenario, raw.routing, trace);
  if (raw.routing.kind == RawRouting::Kind::lognormal && raw.routing.draws > options.iterations)
    scenario.warnings.push_back("routing.lognormal.draws: " + std::to_string(raw.routing.draws) +
                                ", of which --iterations " + std::to_string(options.iterations) + " takes as many");
  check_work(scenario, options.limit, raw.places, faults);
  faults.throw_if_any();
  return scenario;
}

Scenario load_scenario(const std::string& path, const Options& options, const std::shared_ptr<TraceCache>& cache) {
  const config::Node root = config::load_yaml(path);
  return resolve_scenario(root, path, std::filesystem::path(path).parent_path().string(), options, cache);
}

}  // namespace moeplan::scenario
