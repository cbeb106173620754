#include <array>
#include <charconv>
#include <cstddef>
#include <map>
#include <optional>
#include <string_view>

#include "base/nearest.h"
#include "scenario/raw_sections.h"

// The sections `optimizer` and `memory`.
namespace moeplan::scenario {
namespace {

struct Dtype {
  std::string name;
  std::int64_t bytes;
};

// Size of one element; `dtypes` are those that Megatron takes for the key, the default first.
std::int64_t read_dtype(config::Reader& reader, std::string_view key, std::span<const Dtype> dtypes) {
  std::vector<std::string> names;
  for (const Dtype& dtype : dtypes) names.push_back(dtype.name);
  return dtypes[reader.choice_or(key, names, 0)].bytes;
}

const std::array<std::string, 7>& module_names() {
  static const std::array<std::string, 7> names = {"core_attn", "layernorm", "mla_up_proj",   "moe_act",
                                                   "mlp",       "moe",       "shared_experts"};
  return names;
}

// A list of names, each once; returns (index into names, its place).
std::map<std::size_t, base::Where> read_names(config::Reader& reader, std::string_view key,
                                              std::span<const std::string> names) {
  std::map<std::size_t, base::Where> found;
  for (const config::Node& item : reader.list(key)) {
    const bool is_text = item.kind() == config::Node::Kind::scalar;
    std::size_t index = 0;
    while (index < names.size() && !(is_text && names[index] == item.scalar())) ++index;
    if (index == names.size()) {
      reader.faults().add(item.where(), "expected one of " + base::join_names(names) + ", got " + item.describe(),
                          is_text ? base::nearest_hint(item.scalar(), names) : "");
      continue;
    }
    const auto [entry, is_new] = found.emplace(index, item.where());
    if (!is_new) reader.faults().add(item.where(), "'" + names[index] + "' is listed twice", {}, {entry->second});
  }
  return found;
}

void read_modules(config::Reader& reader, Raw& raw) {
  for (const auto& [index, where] : read_names(reader, "recompute_modules", module_names()))
    raw.modules.emplace(static_cast<RecomputeModule>(index), where);
}

void read_recompute(config::Reader& reader, Raw& raw) {
  const std::array<std::string, 4> granularities = {"none", "selective", "full", "selective_op"};
  const std::array<std::string, 2> methods = {"uniform", "block"};
  const std::size_t granularity = reader.choice_or("recompute_granularity", granularities, 0);
  if (reader.has("recompute_granularity")) raw.granularity = static_cast<RecomputeGranularity>(granularity);
  const bool block = reader.choice_or("recompute_method", methods, 0) == 1;
  const std::int64_t layers = reader.integer_or("recompute_num_layers", 1, {1, 1 << 20});
  if (block) {
    if (raw.granularity != RecomputeGranularity::full) {
      reader.fault("recompute_method", "whole layers are recomputed only under 'recompute_granularity: full'");
    }
    raw.block_layers = layers;
  } else if (layers != 1 && raw.granularity != RecomputeGranularity::full) {
    reader.fault("recompute_num_layers", "groups of layers are recomputed only under 'recompute_granularity: full'");
  } else {
    raw.uniform_layers = layers;
  }
  read_modules(reader, raw);
  const bool selective = raw.granularity == RecomputeGranularity::selective;
  if (reader.has("recompute_modules") && !selective && raw.granularity != RecomputeGranularity::full) {
    reader.fault("recompute_modules", "modules are recomputed only under 'recompute_granularity: selective'",
                 "add recompute_granularity: selective");
  }
  // Megatron's default.
  if (selective && !reader.has("recompute_modules")) {
    raw.modules.emplace(RecomputeModule::core_attn, reader.where("recompute_granularity"));
  }
}

// Megatron's Muon orthogonalises whole matrices, so that nothing else may divide them.
void check_muon(config::Reader& reader, const Raw& raw) {
  const bool dealt = raw.optimizer.kind == OptimizerKind::dist_muon;
  if (!dealt && raw.optimizer.sharding != Sharding::ddp) {
    reader.fault("sharding", "muon keeps all states on every rank: expected ddp",
                 "kind: dist_muon deals whole matrices out to ranks");
  }
  if (dealt && raw.optimizer.sharding != Sharding::zero1) {
    reader.fault("sharding", "dist_muon divides optimizer states alone, by whole matrices: expected zero1");
  }
  if (dealt && raw.optimizer.shard_group > 0) {
    reader.fault("shard_group", "dist_muon deals matrices out to the whole data-parallel group");
  }
  if (raw.optimizer.offload_fraction > 0) {
    reader.fault("cpu_offload", "muon on the host is not supported in this version");
  }
  if (raw.training.framework != Framework::megatron) {
    reader.fault("kind", "muon is Megatron's here; expected adam with torchtitan", "training.framework: megatron");
  }
}

}  // namespace

std::string module_name(RecomputeModule module) { return module_names()[static_cast<std::size_t>(module)]; }

void read_optimizer(config::Reader reader, Raw& raw) {
  declare_keys(reader, "optimizer", raw.places);
  const std::array<std::string, 2> later_kinds = {"sgd", "adafactor"};
  const std::array<Dtype, 2> gradients = {{{"fp32", 4}, {"bf16", 2}}};
  const std::array<Dtype, 4> moments = {{{"fp32", 4}, {"bf16", 2}, {"fp16", 2}, {"fp8", 1}}};
  const std::array<Dtype, 2> masters = {{{"fp32", 4}, {"fp16", 2}}};
  Optimizer& optimizer = raw.optimizer;
  optimizer.kind = static_cast<OptimizerKind>(supported_choice(reader, "kind", optimizer_kind_names(), later_kinds, 0));
  if (optimizer.kind == OptimizerKind::muon) optimizer.sharding = Sharding::ddp;  // unless stated: then a fault
  optimizer.sharding = static_cast<Sharding>(
      reader.choice_or("sharding", sharding_names(), static_cast<std::size_t>(optimizer.sharding)));
  optimizer.shard_group = reader.integer_or("shard_group", 0, {1, 1 << 17});
  if (optimizer.shard_group > 0 && !optimizer.shards_states()) {
    reader.fault("shard_group", "ddp keeps everything on every rank", "sharding: zero1 divides the optimizer states");
  }
  if (reader.has("grad_reduce_dtype")) optimizer.grad_reduce_bytes = read_dtype(reader, "grad_reduce_dtype", gradients);
  const bool offload = reader.flag_or("cpu_offload", false);
  optimizer.offload_fraction = reader.real_or("offload_fraction", offload ? 1.0 : 0.0, {0.0, 1.0});
  if (!offload && reader.has("offload_fraction")) {
    reader.fault("offload_fraction", "nothing is offloaded", "add cpu_offload: true");
  }
  if (optimizer.orthogonalises()) check_muon(reader, raw);
  optimizer.gradient_accumulation_fusion = reader.flag_or("gradient_accumulation_fusion", true);
  raw.optimizer.main_grad_bytes = read_dtype(reader, "main_grads_dtype", gradients);
  raw.optimizer.exp_avg_bytes = read_dtype(reader, "exp_avg_dtype", moments);
  raw.optimizer.exp_avg_sq_bytes = read_dtype(reader, "exp_avg_sq_dtype", moments);
  raw.optimizer.master_bytes = read_dtype(reader, "main_params_dtype", masters);
  reader.finish();
}

// CUBLAS_WORKSPACE_CONFIG, as PyTorch reads it: buffers of so many KiB, so many of them, one pair after the other.
std::optional<std::int64_t> cublas_workspace_bytes(std::string_view text) {
  constexpr std::int64_t kMost = std::int64_t{1} << 30;  // KiB and counts: their product stays in range
  std::int64_t bytes = 0;
  while (!text.empty()) {
    std::int64_t pair[2] = {};
    for (std::int64_t& number : pair) {
      if (text.empty() || text.front() != ':') return std::nullopt;
      text.remove_prefix(1);
      const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
      if (error != std::errc() || number < 0 || number > kMost) return std::nullopt;
      text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    }
    if (pair[0] > 0 && pair[1] > kMost / pair[0]) return std::nullopt;
    bytes += pair[0] * pair[1] * 1024;
    if (static_cast<double>(bytes) > kMaxDeviceBytes) return std::nullopt;
  }
  return bytes;
}

void read_memory(config::Reader reader, Raw& raw) {
  declare_keys(reader, "memory", raw.places);
  const std::array<std::string, 2> accountings = {"replay", "closed_form"};
  read_recompute(reader, raw);
  for (const auto& [index, where] : read_names(reader, "offload_modules", offload_module_names()))
    raw.memory.offload_modules.insert(static_cast<OffloadModule>(index));
  raw.memory.expandable_segments = reader.flag_or("expandable_segments", raw.memory.expandable_segments);
  if (reader.has("cublas_workspace_config")) {
    const std::string stated = reader.text("cublas_workspace_config");
    raw.memory.cublas_workspace_bytes = cublas_workspace_bytes(stated);
    if (!stated.empty() && !raw.memory.cublas_workspace_bytes)
      reader.fault("cublas_workspace_config",
                   "expected buffers as :KIB:COUNT, such as \":4096:8\", found \"" + stated + "\"");
  }
  raw.memory.usable_fraction = reader.real_or("usable_fraction", raw.memory.usable_fraction, {0.0, 1.0, true});
  const std::optional<double> given =
      reader.quantity_if("given_static_bytes", base::Dimension::bytes, {0.0, kMaxDeviceBytes, true});
  if (given) raw.memory.given_static_bytes = static_cast<std::int64_t>(*given);
  raw.memory.accounting = static_cast<Accounting>(reader.choice_or("accounting", accountings, 0));
  reader.finish();
}

}  // namespace moeplan::scenario
