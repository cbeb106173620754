#include "scenario/keys.h"

#include <algorithm>
#include <cctype>
#include <vector>

#include "base/error.h"
#include "base/nearest.h"
#include "scenario/resolve.h"

namespace moeplan::scenario {
namespace {

constexpr std::string_view kModel = "model.";
constexpr std::string_view kHardware = "hardware.";

constexpr auto kKeys = std::to_array<Key>({
    {"model"},
    {"cluster", {}, true},
    {"cluster.hardware"},
    {"cluster.kernel_library"},
    {"cluster.degraded"},
    {"cluster.gpus", {"world_size"}},
    {"parallel", {}, true},
    {"parallel.tensor_model_parallel_size", {"tp"}},
    {"parallel.pipeline_model_parallel_size", {"pp"}},
    {"parallel.virtual_pipeline_model_parallel_size", {"vpp"}},
    {"parallel.context_parallel_size", {"cp"}},
    {"parallel.expert_model_parallel_size", {"ep"}},
    {"parallel.expert_tensor_parallel_size", {"etp"}},
    {"parallel.sequence_parallel", {"sp"}},
    {"parallel.pipeline_model_parallel_layout"},
    {"parallel.decoder_first_pipeline_num_layers"},
    {"parallel.decoder_last_pipeline_num_layers"},
    {"parallel.account_for_embedding_in_pipeline_split"},
    {"parallel.account_for_loss_in_pipeline_split"},
    {"training", {}, true},
    {"training.micro_batch_size", {"mbs"}},
    {"training.global_batch_size", {"gbs"}},
    {"training.seq_length", {"seq"}},
    {"training.precision"},
    {"training.framework"},
    {"training.compile"},
    {"training.rms_norm_fusion"},
    {"training.cross_entropy_loss_fusion"},
    {"training.cross_entropy_fusion_impl"},
    {"training.attention_backend"},
    {"training.attention_dropout"},
    {"training.hidden_dropout"},
    {"training.bias_activation_fusion"},
    {"training.fp8_param_gather"},
    {"training.cuda_graph_impl"},
    {"training.cuda_graph_scope"},
    {"training.tp_comm_overlap"},
    {"training.overlap_grad_reduce"},
    {"training.overlap_param_gather"},
    {"training.overlap_p2p_comm", {"overlap_p2p_communication"}},
    {"training.schedule"},
    {"training.total_tokens"},
    {"optimizer", {}, true},
    {"optimizer.kind"},
    {"optimizer.gradient_accumulation_fusion"},
    {"optimizer.sharding"},
    {"optimizer.shard_group"},
    {"optimizer.main_grads_dtype"},
    {"optimizer.grad_reduce_dtype"},
    {"optimizer.main_params_dtype"},
    {"optimizer.exp_avg_dtype"},
    {"optimizer.exp_avg_sq_dtype"},
    {"optimizer.cpu_offload", {"optimizer_cpu_offload"}},
    {"optimizer.offload_fraction", {"optimizer_offload_fraction"}},
    {"memory", {}, true},
    {"memory.recompute_granularity"},
    {"memory.recompute_method"},
    {"memory.recompute_num_layers"},
    {"memory.recompute_modules"},
    {"memory.offload_modules"},
    {"memory.expandable_segments"},
    {"memory.cublas_workspace_config"},
    {"memory.usable_fraction"},
    {"memory.given_static_bytes"},
    {"memory.accounting"},
    {"moe", {}, true},
    {"moe.dispatcher", {"moe_token_dispatcher_type"}},
    {"moe.dispatcher_sms"},
    {"moe.overlap_moe_expert_parallel_comm"},
    {"moe.delay_wgrad_compute"},
    {"moe.permute_fusion", {"moe_permute_fusion"}},
    {"moe.router_fusion", {"moe_router_fusion"}},
    {"moe.use_transformer_engine_op_fuser"},
    {"moe.grouped_gemm", {"moe_grouped_gemm"}},
    {"moe.expert_rank_capacity_factor", {"moe_expert_rank_capacity_factor"}},
    {"moe.paged_stash", {"moe_paged_stash"}},
    {"moe.policies", {}, true},
    {"moe.policies.capacity", {}, true},
    {"moe.policies.capacity.factor", {"moe_expert_capacity_factor"}},
    {"moe.policies.capacity.pad", {"moe_pad_expert_input_to_capacity"}},
    {"moe.policies.capacity.drop_policy", {"moe_token_drop_policy"}},
    {"moe.policies.memfine", {}, true},
    {"moe.policies.memfine.rule"},
    {"moe.policies.memfine.chunks"},
    {"moe.policies.memfine.bins"},
    {"moe.policies.memfine.alpha"},
    {"moe.policies.memfine.planning_capacity"},
    {"moe.policies.memfine.bytes_per_row"},
    {"moe.policies.memfine.recompute"},
    {"moe.policies.memfine.pipelined"},
    {"moe.policies.lrmoe", {}, true},
    {"moe.policies.lrmoe.tau"},
    {"moe.policies.lrmoe.min_rows"},
    {"moe.policies.lrmoe.min_retained"},
    {"moe.policies.lrmoe.score_sigma"},
    {"moe.policies.lrmoe.mode"},
    {"moe.policies.lrmoe.seed"},
    {"moe.policies.lrmoe.replicas"},
    {"moe.policies.lrmoe.max_instances"},
    {"routing", {}, true},
    {"routing.trace"},
    {"routing.map", {}, true},
    {"routing.map.layers"},
    {"routing.resample"},
    {"routing.seed"},
    {"routing.balanced"},
    {"routing.lognormal", {}, true},
    {"routing.lognormal.sigma"},
    {"routing.lognormal.seed"},
    {"routing.lognormal.draws"},
    {"routing.preset"},
});

// "--Expert-Model-Parallel-Size" -> "expert_model_parallel_size".
std::string folded(std::string_view key) {
  while (key.starts_with('-')) key.remove_prefix(1);
  std::string result(key);
  for (char& c : result) c = c == '-' ? '_' : static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return result;
}

// The path and the same path with each short name as its last part.
std::vector<std::string> spellings(const Key& key) {
  std::vector<std::string> result = {std::string(key.path)};
  const std::string_view parent = parent_path(key.path);
  for (const std::string_view name : key.short_names) {
    if (!name.empty())
      result.push_back(parent.empty() ? std::string(name) : std::string(parent) + "." + std::string(name));
  }
  return result;
}

bool is_exact(const Key& key, const std::string& name) {
  const std::vector<std::string> all = spellings(key);
  return std::find(all.begin(), all.end(), name) != all.end();
}

bool ends_with_parts(const Key& key, const std::string& name) {
  const std::vector<std::string> all = spellings(key);
  return std::any_of(all.begin(), all.end(), [&](const std::string& path) { return path.ends_with("." + name); });
}

std::string hint_for(const std::string& name) {
  std::vector<std::string> known;
  for (const Key& key : key_table()) {
    if (name.find('.') == std::string::npos) {
      known.emplace_back(last_name(key.path));
    } else {
      known.emplace_back(key.path);
      // "memfine.chunk" is nearer to "memfine.chunks" than to the whole path.
      known.push_back(std::string(last_name(parent_path(key.path))) + "." + std::string(last_name(key.path)));
    }
    for (const std::string_view short_name : key.short_names) {
      if (!short_name.empty()) known.emplace_back(short_name);
    }
  }
  return base::nearest_hint(name, known);
}

}  // namespace

std::span<const Key> key_table() { return kKeys; }

std::string_view parent_path(std::string_view path) {
  const std::size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : path.substr(0, dot);
}

std::string_view last_name(std::string_view path) {
  const std::size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? path : path.substr(dot + 1);
}

bool is_model_path(std::string_view path) { return path.starts_with(kModel); }
bool is_hardware_path(std::string_view path) { return path.starts_with(kHardware); }

std::string scenario_path(const std::string& key, const std::string& origin) {
  // Names inside a model file or a profile are theirs: their readers check them.
  if (is_model_path(key) || is_hardware_path(key)) return key;
  const std::string name = folded(key);
  const base::Where where{origin, 0, 0, {}};
  if (name.empty()) throw base::Error(where, "expected a key, got nothing");
  std::vector<std::string> found;
  for (const Key& entry : key_table()) {
    if (is_exact(entry, name)) return std::string(entry.path);
    if (ends_with_parts(entry, name)) found.emplace_back(entry.path);
  }
  if (found.size() == 1) return found.front();
  if (found.empty()) throw base::Error(where, "unknown key '" + key + "'", hint_for(name));
  throw base::Error(where, "'" + key + "' can be any of " + base::join_names(found), "write more of the path");
}

std::vector<std::pair<std::string, std::string>> scenario_keys() {
  std::vector<std::pair<std::string, std::string>> keys;
  for (const Key& key : key_table()) {
    std::string names;
    for (const std::string_view name : key.short_names) {
      if (!name.empty()) names += (names.empty() ? "" : ", ") + std::string(name);
    }
    keys.emplace_back(key.path, names);
  }
  return keys;
}

std::pair<std::string, std::string> split_override(const std::string& text, const std::string& option) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw base::Error(base::Where{option + " " + text, 0, 0, {}}, "expected KEY=VALUE, got '" + text + "'");
  }
  return {text.substr(0, equals), text.substr(equals + 1)};
}

std::vector<std::pair<std::string, std::string>> split_overrides(const std::vector<std::string>& texts,
                                                                 const std::string& option, base::Faults& faults) {
  const auto collect = [&](const auto& action) {
    try {
      action();
    } catch (const base::Error& error) {
      faults.add(error);
    }
  };
  std::vector<std::pair<std::string, std::string>> parts;
  for (const std::string& text : texts) collect([&] { parts.push_back(split_override(text, option)); });
  if (parts.size() == texts.size()) return parts;
  for (const std::string& text : texts) {
    const std::string key = text.substr(0, text.find('='));
    if (!key.empty()) collect([&] { scenario_path(key, option + " " + text); });
  }
  return parts;
}

}  // namespace moeplan::scenario
