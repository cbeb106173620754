#include "search/levers.h"

#include <algorithm>
#include <array>

#include "scenario/keys.h"
#include "scenario/resolve.h"

namespace moeplan::search {
namespace {

using scenario::RecomputeGranularity;
using scenario::RecomputeModule;
using scenario::Scenario;
using scenario::Sharding;

constexpr const char* kGranularity = "memory.recompute_granularity";
constexpr const char* kModules = "memory.recompute_modules";
constexpr const char* kOffload = "memory.offload_modules";

constexpr std::array<const char*, 7> kModuleNames = {"core_attn", "layernorm", "mla_up_proj",   "moe_act",
                                                     "mlp",       "moe",       "shared_experts"};

bool applies(RecomputeModule module, const Scenario& s) {
  const bool moe = s.model.moe_layer_count() > 0;
  switch (module) {
    case RecomputeModule::core_attn:
    case RecomputeModule::layernorm:
      return true;
    case RecomputeModule::mla_up_proj:
      return s.model.attention.kind == model::AttentionKind::mla;
    case RecomputeModule::moe_act:
    case RecomputeModule::moe:
      return moe;
    case RecomputeModule::mlp:
      return s.model.moe_layer_count() < s.model.layer_count();
    case RecomputeModule::shared_experts:
      return moe && s.model.moe.shared_ffn > 0;
  }
  return false;
}

class List {
 public:
  explicit List(const Scenario& scenario) : s_(scenario) {}
  void add(std::string name, std::vector<Setting> settings, std::string family = "") {
    changes_.push_back({std::move(name), std::move(family), std::move(settings)});
  }

  void recompute() {
    if (s_.recompute.granularity == RecomputeGranularity::full) {
      // Only some layers: all of them.
      if (s_.recompute.block_layers)
        add("recompute every layer", {{"memory.recompute_method", "uniform"}, {"memory.recompute_num_layers", "1"}});
      // Fewer inputs are kept, more layers are alive at once: which counts more depends on what is in flight.
      else if (s_.recompute.uniform_layers == 1)
        add("recompute in groups of 2 layers", {{"memory.recompute_num_layers", "2"}});
      else
        add("recompute every layer by itself", {{"memory.recompute_num_layers", "1"}});
      return;
    }
    for (std::size_t i = 0; i < kModuleNames.size(); ++i) {
      const auto module = static_cast<RecomputeModule>(i);
      if (!applies(module, s_) || s_.recompute.has(module)) continue;
      add(std::string("recompute ") + kModuleNames[i],
          {{kGranularity, "selective"}, {kModules, kModuleNames[i], true}});
    }
    add("recompute full", {{kGranularity, "full"}});
  }

  void chunks() {
    if (s_.model.moe_layer_count() == 0) return;
    const auto& memfine = s_.policies.memfine;
    for (const std::int64_t count : {2, 4, 8}) {
      if (memfine && memfine->rule == policy::MemfineSettings::Rule::fixed && memfine->chunks == count) continue;
      std::vector<Setting> settings = {{"moe.policies.memfine.rule", "fixed"},
                                       {"moe.policies.memfine.chunks", std::to_string(count)}};
      add("memfine " + std::to_string(count) + " chunks", std::move(settings), "memfine");
    }
  }

  void sizes() {
    if (s_.training.micro_batch_size > 1)
      doubled("MBS halved", "training.micro_batch_size", s_.training.micro_batch_size / 2);
    const auto& layout = s_.layout;
    if (s_.model.moe_layer_count() > 0 && 2 * layout.ep <= s_.model.moe.experts)
      doubled("EP doubled", "parallel.expert_model_parallel_size", 2 * layout.ep);
    if (2 * layout.tp <= s_.model.attention.heads)
      doubled("TP doubled", "parallel.tensor_model_parallel_size", 2 * layout.tp);
    if (2 * layout.pp <= s_.model.layer_count())
      doubled("PP doubled", "parallel.pipeline_model_parallel_size", 2 * layout.pp);
    doubled("CP doubled", "parallel.context_parallel_size", 2 * layout.cp);
  }

  void offload() {
    const auto names = scenario::offload_module_names();
    const bool moe = s_.model.moe_layer_count() > 0;
    const auto held = [&](scenario::OffloadModule module) { return s_.memory.offload_modules.contains(module); };
    for (std::size_t i = 0; i < names.size(); ++i) {
      const auto module = static_cast<scenario::OffloadModule>(i);
      const bool of_experts =
          module == scenario::OffloadModule::expert_fc1 || module == scenario::OffloadModule::moe_act;
      if (!held(module) && (moe || !of_experts)) add("offload " + names[i], {{kOffload, names[i], true}});
    }
    if (moe && !held(scenario::OffloadModule::expert_fc1) && !held(scenario::OffloadModule::moe_act))
      add("offload moe_act + expert_fc1", {{kOffload, "moe_act", true}, {kOffload, "expert_fc1", true}});
  }

  void optimizer() {
    const auto& o = s_.optimizer;
    if (s_.memory.given_static_bytes) return;  // they are as given, whatever the settings
    if (o.offload_fraction == 0 && !o.orthogonalises())
      add("optimizer on the host", {{"optimizer.cpu_offload", "true"}});
    if (o.exp_avg_bytes > 2 || o.exp_avg_sq_bytes > 2)
      add("bf16 moments", {{"optimizer.exp_avg_dtype", "bf16"}, {"optimizer.exp_avg_sq_dtype", "bf16"}});
    if (o.main_grad_bytes > 2) add("bf16 gradients", {{"optimizer.main_grads_dtype", "bf16"}});
    if (o.kind == scenario::OptimizerKind::muon)
      add("matrices dealt out", {{"optimizer.kind", "dist_muon"}, {"optimizer.sharding", "zero1"}});
    if (!o.gradient_accumulation_fusion)
      add("gradient accumulation fused", {{"optimizer.gradient_accumulation_fusion", "true"}});
    if (o.sharding < Sharding::zero3 && !o.orthogonalises()) {
      const std::string next = scenario::sharding_names()[static_cast<std::size_t>(o.sharding) + 1];
      add("sharding " + next, {{"optimizer.sharding", next}});
    }
  }

  void others() {
    using scenario::Precision;
    const auto& training = s_.training;
    const bool fp8 = training.precision == Precision::fp8_tensorwise ||
                     training.precision == Precision::fp8_blockwise || training.precision == Precision::mxfp8;
    if (fp8 && !training.fp8_param_gather && training.framework == scenario::Framework::megatron)
      add("fp8 parameters", {{"training.fp8_param_gather", "true"}});
    if (!s_.memory.expandable_segments) add("expandable segments", {{"memory.expandable_segments", "true"}});
    if (!s_.training.fused_cross_entropy) add("fused cross-entropy", {{"training.cross_entropy_loss_fusion", "true"}});
    if (s_.model.moe_layer_count() == 0 || s_.layout.ep == 1) return;
    const auto names = scenario::dispatcher_names();
    for (std::size_t i = 0; i < names.size(); ++i)
      if (static_cast<scenario::Dispatcher>(i) != s_.dispatch.kind)
        add("dispatcher " + names[i], {{"moe.dispatcher", names[i]}}, "dispatcher");
  }

  std::vector<Change> take() { return std::move(changes_); }

 private:
  void doubled(const char* name, const char* path, std::int64_t value) { add(name, {{path, std::to_string(value)}}); }

  const Scenario& s_;
  std::vector<Change> changes_;
};

// Entries that the scenario lists already, as the key's readers name them.
std::vector<std::string> listed(const std::string& path, const Scenario& scenario) {
  std::vector<std::string> names;
  if (path == kModules)
    for (const RecomputeModule module : scenario.recompute.modules)
      names.emplace_back(kModuleNames[static_cast<std::size_t>(module)]);
  if (path == kOffload)
    for (const scenario::OffloadModule module : scenario.memory.offload_modules)
      names.push_back(scenario::offload_module_names()[static_cast<std::size_t>(module)]);
  return names;
}

// The file's short name of a key where it uses one, else the shortest part of the path that names it.
std::string spelled(const std::string& path, const config::Node& file) {
  const std::string parent(scenario::parent_path(path));
  std::string name(scenario::last_name(path));
  if (parent.find('.') == std::string::npos && file.has(parent) && file.at(parent).kind() == config::Node::Kind::map &&
      !file.at(parent).has(name))
    for (const scenario::Key& key : scenario::key_table())
      if (key.path == path)
        for (const std::string_view shorter : key.short_names)
          if (!shorter.empty() && file.at(parent).has(shorter)) return std::string(shorter);
  // "memfine.chunks" says more than "chunks".
  if (parent.find('.') != std::string::npos) return std::string(scenario::last_name(parent)) + "." + name;
  try {
    if (scenario::scenario_path(name, "") == path) return name;
  } catch (const base::Error&) {  // several sections have such a key
  }
  return std::string(scenario::last_name(parent)) + "." + name;
}

}  // namespace

std::vector<Change> single_changes(const Scenario& scenario) {
  List list(scenario);
  list.recompute();
  list.chunks();
  list.sizes();
  list.offload();
  list.optimizer();
  list.others();
  return list.take();
}

std::optional<Change> combined(const Change& a, const Change& b) {
  if (!a.family.empty() && a.family == b.family) return std::nullopt;
  Change sum = a;
  sum.name += ", " + b.name;
  sum.family.clear();
  for (const Setting& setting : b.settings) {
    bool is_there = false;
    for (const Setting& old : a.settings) {
      if (old.path != setting.path) continue;
      if (old == setting)
        is_there = true;
      else if (!setting.entry || !old.entry)
        return std::nullopt;
    }
    if (!is_there) sum.settings.push_back(setting);
  }
  // Every setting of one is among the other's: nothing new.
  if (sum.settings.size() == std::max(a.settings.size(), b.settings.size())) return std::nullopt;
  return sum;
}

std::vector<std::pair<std::string, std::string>> overrides_of(const Change& change, const Scenario& scenario) {
  std::vector<std::pair<std::string, std::string>> result;
  for (const Setting& setting : change.settings) {
    if (!setting.entry) {
      result.emplace_back(setting.path, setting.value);
      continue;
    }
    std::vector<std::string> entries = listed(setting.path, scenario);
    bool first = true;
    for (const Setting& other : change.settings) {
      if (other.path != setting.path) continue;
      if (&other < &setting) first = false;
      if (std::find(entries.begin(), entries.end(), other.value) == entries.end()) entries.push_back(other.value);
    }
    if (!first) continue;
    std::sort(entries.begin(), entries.end());
    std::string list;
    for (const std::string& entry : entries) list += (list.empty() ? "" : ", ") + entry;
    result.emplace_back(setting.path, "[" + list + "]");
  }
  return result;
}

std::string set_text(const Change& change, const Scenario& scenario, const config::Node& file) {
  std::string text;
  const auto overrides = overrides_of(change, scenario);
  const bool sets_chunks = std::any_of(overrides.begin(), overrides.end(),
                                       [](const auto& entry) { return entry.first == "moe.policies.memfine.chunks"; });
  for (const auto& [path, value] : overrides) {
    // A count of chunks implies the fixed rule (--set memfine.chunks=4).
    if (sets_chunks && path == "moe.policies.memfine.rule") continue;
    const std::string setting = spelled(path, file) + "=" + value;
    if (!text.empty()) text += " ";
    text += setting.find('[') == std::string::npos ? "--set " + setting : "--set '" + setting + "'";
  }
  return text;
}

}  // namespace moeplan::search
