#include "scenario/raw.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <vector>

#include "base/nearest.h"
#include "scenario/raw_sections.h"
#include "schedule/schedule.h"

namespace moeplan::scenario {
namespace {

// Far above any cluster and any step; products of them that matter are bounded in limits.cpp.
constexpr std::int64_t kMaxGpus = std::int64_t{1} << 17;
constexpr std::int64_t kMaxMicroBatch = std::int64_t{1} << 12;
constexpr std::int64_t kMaxGlobalBatch = std::int64_t{1} << 24;
constexpr std::int64_t kMaxSequence = std::int64_t{1} << 22;

// { rail: 2, share: 0 }: exactly one of nic, rail and pod.
void read_degraded(const config::Node& node, Raw& raw, base::Faults& faults) {
  const std::array<std::string, 3> kinds = {"nic", "rail", "pod"};
  config::Reader reader(node, faults);
  Raw::Degraded& degraded = raw.degraded.emplace_back();
  degraded.where = node.where();
  std::vector<std::string> named;
  for (std::size_t i = 0; i < kinds.size(); ++i) {
    if (!reader.has(kinds[i])) continue;
    named.push_back(kinds[i]);
    degraded.link.what = static_cast<topology::DegradedLink::What>(i);
    degraded.link.which = reader.integer(kinds[i], {0, kMaxGpus});
  }
  degraded.link.share = reader.real("share", {0.0, 1.0});
  const std::size_t before = faults.size();
  reader.finish();
  if (faults.size() != before || node.kind() != config::Node::Kind::map) return;  // a name was mistyped
  if (named.empty()) faults.add(node.where(), "expected one of " + base::join_names(kinds), "{ rail: 2, share: 0 }");
  if (named.size() > 1) reader.fault(named[1], "one link has one name, and '" + named[0] + "' is given, too");
}

void read_cluster(config::Reader reader, Raw& raw) {
  declare_keys(reader, "cluster", raw.places);
  raw.hardware = reader.text("hardware");
  raw.kernel_library = reader.text_or("kernel_library", "");
  raw.layout.world = reader.integer("gpus", {1, kMaxGpus});
  for (const config::Node& node : reader.list("degraded")) read_degraded(node, raw, reader.faults());
  reader.finish();
}

using SectionReader = void (*)(config::Reader, Raw&);

void read_if_there(config::Reader& root, std::string_view name, SectionReader read, Raw& raw) {
  if (const std::optional<config::Reader> section = root.map_if(name)) read(*section, raw);
}

}  // namespace

void refuse(config::Reader& reader, std::string_view key, const std::string& value, const std::string& expected) {
  const bool written_in_full = reader.where(key).key.ends_with(key);
  reader.fault(key, fmt::format("{}{} is not supported in this version; expected {}",
                                written_in_full ? "" : std::string(key) + ": ", value, expected));
}

std::size_t supported_choice(config::Reader& reader, std::string_view key, std::span<const std::string> supported,
                             std::span<const std::string> later, std::size_t fallback) {
  const std::optional<config::Node> node = reader.node_if(key);
  if (node && node->kind() == config::Node::Kind::scalar) {
    const std::string text = node->scalar();
    if (std::find(later.begin(), later.end(), text) != later.end()) {
      const std::string expected = supported.size() == 1 ? supported[0] : "one of " + base::join_names(supported);
      refuse(reader, key, text, expected);
      return fallback;
    }
  }
  return reader.choice_or(key, supported, fallback);
}

void read_parallel(config::Reader reader, Raw& raw) {
  declare_keys(reader, "parallel", raw.places);
  const config::IntRange range{1, kMaxGpus};
  topology::Layout& layout = raw.layout;
  layout.tp = reader.integer_or("tensor_model_parallel_size", 1, range);
  layout.pp = reader.integer_or("pipeline_model_parallel_size", 1, range);
  layout.ep = reader.integer_or("expert_model_parallel_size", 1, range);
  layout.cp = reader.integer_or("context_parallel_size", 1, range);
  layout.etp = reader.integer_or("expert_tensor_parallel_size", 1, range);
  layout.vpp = reader.integer_or("virtual_pipeline_model_parallel_size", 1, range);
  if (!reader.flag_or("sequence_parallel", true) && layout.tp > 1) {
    refuse(reader, "sequence_parallel", "false with tensor_model_parallel_size > 1", "true");
  }
  raw.stage_layout = reader.text_or("pipeline_model_parallel_layout", "");
  StageRules& rules = raw.stage_rules;
  const auto own_count = [&](std::string_view key) {
    return reader.has(key) ? std::optional<std::int64_t>(reader.integer(key, {0, 4096})) : std::nullopt;
  };
  rules.first_layers = own_count("decoder_first_pipeline_num_layers");
  rules.last_layers = own_count("decoder_last_pipeline_num_layers");
  rules.account_for_embedding = reader.flag_or("account_for_embedding_in_pipeline_split", false);
  rules.account_for_loss = reader.flag_or("account_for_loss_in_pipeline_split", false);
  if (!raw.stage_layout.empty() &&
      (rules.first_layers || rules.last_layers || rules.account_for_embedding || rules.account_for_loss)) {
    reader.fault("pipeline_model_parallel_layout", "stands beside other rules for the division of layers",
                 "a layout string says it all");
  }
  reader.finish();
}

// Megatron's names of what a graph captures.
void read_graph_scope(config::Reader& reader, Training& training) {
  const std::array<std::string, 8> scopes = {"full_iteration", "attn",           "mlp",           "moe", "moe_router",
                                             "mamba",          "moe_preprocess", "shared_experts"};
  for (const std::string& scope : reader.texts("cuda_graph_scope")) {
    if (std::find(scopes.begin(), scopes.end(), scope) == scopes.end()) {
      reader.fault("cuda_graph_scope", "expected some of " + base::join_names(scopes) + ", got '" + scope + "'",
                   base::nearest_hint(scope, scopes));
    }
    training.cuda_graph_scope.insert(scope);
  }
  if (reader.has("cuda_graph_scope") && training.cuda_graphs == CudaGraphs::none) {
    reader.fault("cuda_graph_scope", "no graphs are captured", "add cuda_graph_impl: transformer_engine");
  }
}

// What torch.compile and later releases of PyTorch make one kernel of.
void read_compiled(config::Reader& reader, Training& training) {
  training.compile = reader.flag_or("compile", false);
  training.rms_norm_fusion = reader.flag_or("rms_norm_fusion", true);
  if (training.framework == Framework::torchtitan) {
    if (training.compile && !training.rms_norm_fusion)
      reader.fault("rms_norm_fusion", "compiled norms are one kernel", "rms_norm_fusion: true, or compile: false");
    return;
  }
  const auto refuse = [&](const char* key) {
    reader.fault(key, "Megatron's modules are Transformer Engine's kernels", "framework: torchtitan");
  };
  if (training.compile) refuse("compile");
  if (!training.rms_norm_fusion) refuse("rms_norm_fusion");
}

// Parameters that are held as the products read them.
void read_fp8_parameters(config::Reader& reader, Training& training) {
  training.fp8_param_gather = reader.flag_or("fp8_param_gather", false);
  if (!training.fp8_param_gather) return;
  const bool fp8 = training.precision == Precision::fp8_tensorwise || training.precision == Precision::fp8_blockwise ||
                   training.precision == Precision::mxfp8;
  if (!fp8) {
    reader.fault("fp8_param_gather", "parameters are kept in fp8 only under the recipes of it",
                 "precision: fp8_tensorwise, fp8_blockwise or mxfp8");
  } else if (training.framework != Framework::megatron) {
    reader.fault("fp8_param_gather", "torchtitan keeps fp32 shards as parameters", "framework: megatron");
  }
}

void read_training(config::Reader reader, Raw& raw) {
  declare_keys(reader, "training", raw.places);
  const std::array<std::string, 1> later_precisions = {"fp32"};
  raw.schedule_stated = reader.has("schedule");
  std::vector<std::string> schedules;
  std::size_t usual = 0;
  for (const schedule::ScheduleEntry& entry : schedule::schedule_table()) {
    if (entry.name == raw.training.schedule) usual = schedules.size();
    schedules.push_back(entry.name);
  }
  raw.training.micro_batch_size = reader.integer("micro_batch_size", {1, kMaxMicroBatch});
  raw.training.global_batch_size = reader.integer("global_batch_size", {1, kMaxGlobalBatch});
  raw.training.seq_length = reader.integer("seq_length", {1, kMaxSequence});
  raw.training.precision =
      static_cast<Precision>(supported_choice(reader, "precision", precision_names(), later_precisions, 0));
  raw.training.framework = static_cast<Framework>(reader.choice_or("framework", framework_names(), 0));
  raw.memory.expandable_segments = raw.training.framework == Framework::torchtitan;  // its run_train.sh
  read_compiled(reader, raw.training);
  raw.training.fused_cross_entropy = reader.flag_or(
      "cross_entropy_loss_fusion", raw.training.framework != Framework::torchtitan || raw.training.compile);
  const std::array<std::string, 2> impls = {"native", "te"};
  raw.training.in_place_cross_entropy = reader.choice_or("cross_entropy_fusion_impl", impls, 0) == 1;
  if (raw.training.in_place_cross_entropy && !raw.training.fused_cross_entropy) {
    reader.fault("cross_entropy_fusion_impl", "the cross-entropy is not fused", "cross_entropy_loss_fusion: true");
  }
  const std::array<std::string, 4> backends = {"auto", "flash", "fused", "unfused"};
  raw.training.unfused_attention = reader.choice_or("attention_backend", backends, 0) == 3;
  raw.training.attention_dropout = reader.real_or("attention_dropout", 0.0, {0.0, 1.0});
  raw.training.hidden_dropout = reader.real_or("hidden_dropout", 0.0, {0.0, 1.0});
  raw.training.bias_activation_fusion = reader.flag_or("bias_activation_fusion", true);
  read_fp8_parameters(reader, raw.training);
  raw.training.cuda_graphs = static_cast<CudaGraphs>(reader.choice_or("cuda_graph_impl", cuda_graph_names(), 0));
  read_graph_scope(reader, raw.training);
  raw.training.tp_comm_overlap = reader.flag_or("tp_comm_overlap", false);
  raw.training.overlap_grad_reduce = reader.flag_or("overlap_grad_reduce", false);
  raw.training.overlap_param_gather = reader.flag_or("overlap_param_gather", false);
  raw.training.overlap_p2p_comm = reader.flag_or("overlap_p2p_comm", false);
  raw.training.schedule = schedules[reader.choice_or("schedule", schedules, usual)];
  raw.training.total_tokens = reader.real_or("total_tokens", 0.0, {0.0, 1e18, true});
  reader.finish();
}

Raw read_raw(const config::Node& root, base::Faults& faults) {
  config::Reader reader(root, faults);
  Raw raw(root.where());
  declare_keys(reader, "", raw.places);
  const std::optional<config::Node> model = reader.node_if("model");
  if (model && model->kind() == config::Node::Kind::map) {
    raw.inline_model = model;
  } else {
    raw.model = reader.text("model");
  }
  read_cluster(reader.map("cluster"), raw);
  read_if_there(reader, "parallel", &read_parallel, raw);
  read_training(reader.map("training"), raw);
  // Torchtitan divides parameters unless told otherwise.
  if (raw.training.framework == Framework::torchtitan) raw.optimizer.sharding = Sharding::fsdp2;
  read_if_there(reader, "optimizer", &read_optimizer, raw);
  read_if_there(reader, "memory", &read_memory, raw);
  read_if_there(reader, "moe", &read_moe, raw);
  read_if_there(reader, "routing", &read_routing, raw);
  reader.finish();
  return raw;
}

}  // namespace moeplan::scenario
