#include <array>
#include <cstddef>

#include "base/nearest.h"
#include "scenario/raw_sections.h"

// The sections `optimizer` and `memory`.
namespace moeplan::scenario {
namespace {

constexpr double kMaxBytes = 1e15;  // of one device: sums of such sizes stay exact in 64 bits

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

void read_modules(config::Reader& reader, Raw& raw) {
  for (const config::Node& item : reader.list("recompute_modules")) {
    const bool is_text = item.kind() == config::Node::Kind::scalar;
    std::size_t index = 0;
    while (index < module_names().size() && !(is_text && module_names()[index] == item.scalar())) ++index;
    if (index == module_names().size()) {
      reader.faults().add(item.where(),
                          "expected one of " + base::join_names(module_names()) + ", got " + item.describe(),
                          is_text ? base::nearest_hint(item.scalar(), module_names()) : "");
      continue;
    }
    const auto [entry, is_new] = raw.modules.emplace(static_cast<RecomputeModule>(index), item.where());
    if (!is_new) {
      reader.faults().add(item.where(), "'" + module_names()[index] + "' is listed twice", {}, {entry->second});
    }
  }
}

void read_recompute(config::Reader& reader, Raw& raw) {
  const std::array<std::string, 3> granularities = {"none", "selective", "full"};
  const std::array<std::string, 1> methods = {"uniform"};
  const std::array<std::string, 1> later_methods = {"block"};
  const std::size_t granularity = reader.choice_or("recompute_granularity", granularities, 0);
  if (reader.has("recompute_granularity")) raw.granularity = static_cast<RecomputeGranularity>(granularity);
  supported_choice(reader, "recompute_method", methods, later_methods, 0);
  const std::int64_t layers = reader.integer_or("recompute_num_layers", 1, {1, 1 << 20});
  if (layers != 1) refuse(reader, "recompute_num_layers", std::to_string(layers), "1 (each layer by itself)");
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

}  // namespace

std::string module_name(RecomputeModule module) { return module_names()[static_cast<std::size_t>(module)]; }

void read_optimizer(config::Reader reader, Raw& raw) {
  declare_keys(reader, "optimizer", raw.places);
  const std::array<std::string, 1> kinds = {"adam"};
  const std::array<std::string, 3> later_kinds = {"sgd", "muon", "adafactor"};
  const std::array<std::string, 2> shardings = {"zero1", "ddp"};
  const std::array<std::string, 5> later_shardings = {"zero2", "zero3", "fsdp", "fsdp2", "hsdp"};
  const std::array<Dtype, 2> gradients = {{{"fp32", 4}, {"bf16", 2}}};
  const std::array<Dtype, 4> moments = {{{"fp32", 4}, {"bf16", 2}, {"fp16", 2}, {"fp8", 1}}};
  const std::array<Dtype, 2> masters = {{{"fp32", 4}, {"fp16", 2}}};
  supported_choice(reader, "kind", kinds, later_kinds, 0);
  raw.optimizer.distributed = supported_choice(reader, "sharding", shardings, later_shardings, 0) == 0;
  raw.optimizer.main_grad_bytes = read_dtype(reader, "main_grads_dtype", gradients);
  raw.optimizer.exp_avg_bytes = read_dtype(reader, "exp_avg_dtype", moments);
  raw.optimizer.exp_avg_sq_bytes = read_dtype(reader, "exp_avg_sq_dtype", moments);
  raw.optimizer.master_bytes = read_dtype(reader, "main_params_dtype", masters);
  reader.finish();
}

void read_memory(config::Reader reader, Raw& raw) {
  declare_keys(reader, "memory", raw.places);
  const std::array<std::string, 2> accountings = {"replay", "closed_form"};
  read_recompute(reader, raw);
  raw.memory.expandable_segments = reader.flag_or("expandable_segments", raw.memory.expandable_segments);
  raw.memory.usable_fraction = reader.real_or("usable_fraction", raw.memory.usable_fraction, {0.0, 1.0, true});
  const std::optional<double> given =
      reader.quantity_if("given_static_bytes", base::Dimension::bytes, {0.0, kMaxBytes, true});
  if (given) raw.memory.given_static_bytes = static_cast<std::int64_t>(*given);
  raw.memory.accounting = static_cast<Accounting>(reader.choice_or("accounting", accountings, 0));
  reader.finish();
}

}  // namespace moeplan::scenario
