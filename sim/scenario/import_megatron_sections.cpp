#include "scenario/import_megatron_sections.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>

#include "scenario/overrides.h"
#include "scenario/settings.h"

namespace moeplan::scenario {
namespace {

using model::Architecture;

// "  key: value" a line.
class Section {
 public:
  explicit Section(const char* name) : text_(std::string(name) + ":\n") {}
  void add(const std::string& key, const std::string& value) { text_ += "  " + key + ": " + value + "\n"; }
  void add(const std::string& key, std::int64_t value) { add(key, std::to_string(value)); }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
};

// Layout strings hold signs that mean something in YAML.
std::string quoted_line(const std::string& text) { return quoted(one_line(text, text.size())); }

// Virtual stages a rank, from any of the three options; 0 where none states it.
std::int64_t virtual_stages(MegatronOptions& options, const Architecture& arch, std::int64_t pp) {
  const std::int64_t stated = options.size_or("virtual_pipeline_model_parallel_size", 0);
  const std::int64_t a_rank = options.size_or("num_virtual_stages_per_pipeline_rank", 0);
  const std::int64_t layers = options.size_or("num_layers_per_virtual_pipeline_stage", 0);
  if (stated > 0 || a_rank > 0 || layers == 0) return std::max(stated, a_rank);
  const std::int64_t all = arch.layer_count() + (options.flag("account_for_embedding_in_pipeline_split") ? 1 : 0) +
                           (options.flag("account_for_loss_in_pipeline_split") ? 1 : 0);
  if (pp > 0 && all % pp == 0 && (all / pp) % layers == 0) return all / pp / layers;
  options.fault("num_layers_per_virtual_pipeline_stage",
                fmt::format("{} layers over {} stages are not whole virtual stages of {}", all, pp, layers));
  return 0;
}

std::string parallel(MegatronOptions& options, const Architecture& arch) {
  Section section("parallel");
  const std::int64_t tp = options.size_or("tensor_model_parallel_size", 1);
  const std::int64_t pp = options.size_or("pipeline_model_parallel_size", 1);
  section.add("tensor_model_parallel_size", tp);
  section.add("pipeline_model_parallel_size", pp);
  const std::int64_t vpp = virtual_stages(options, arch, pp);
  if (vpp > 1) section.add("virtual_pipeline_model_parallel_size", vpp);
  section.add("context_parallel_size", options.size_or("context_parallel_size", 1));
  const std::int64_t ep = options.size_or("expert_model_parallel_size", 1);
  const std::int64_t etp = options.size_or("expert_tensor_parallel_size", tp);
  if (arch.moe.experts > 0) {
    section.add("expert_model_parallel_size", ep);
    // Megatron's default is the tensor-parallel size, so it is always written.
    section.add("expert_tensor_parallel_size", etp);
  } else if (ep != 1) {
    options.fault("expert_model_parallel_size", "a model without experts has no expert parallelism");
  }
  if (!options.flag("sequence_parallel") && tp > 1) {
    options.unsupported_at(
        "tensor_model_parallel_size",
        "tensor parallelism without --sequence-parallel: not supported in this version, simulated with it");
  }
  if (const auto layout = options.text("pipeline_model_parallel_layout")) {
    section.add("pipeline_model_parallel_layout", quoted_line(*layout));
  }
  for (const char* key : {"decoder_first_pipeline_num_layers", "decoder_last_pipeline_num_layers"}) {
    if (const auto layers = options.integer(key)) section.add(key, *layers);
  }
  for (const char* key : {"account_for_embedding_in_pipeline_split", "account_for_loss_in_pipeline_split"}) {
    if (options.flag(key)) section.add(key, "true");
  }
  return section.text();
}

// A value of a format option ("e4m3", "hybrid"), which a dump shows as None where there is none.
bool has_format(MegatronOptions& options, const std::string& name) {
  const std::string text = options.text_or(name, "None");
  return text != "None" && text != "False";
}

std::string precision(MegatronOptions& options) {
  // Each spelling is asked for, so that each counts as read.
  bool fp8 = has_format(options, "fp8_format"), fp4 = has_format(options, "fp4_format");
  fp8 = has_format(options, "fp8") || fp8;
  fp4 = has_format(options, "fp4") || fp4;
  const std::string recipe = options.text_or("fp8_recipe", "delayed");
  const bool fp16 = options.flag("fp16");
  if (!fp16 && !options.flag("bf16")) {
    options.unsupported_at("", "fp32 (no --bf16): not supported in this version, simulated with bf16");
  }
  if (fp4) return "nvfp4";
  if (!fp8) return fp16 ? "fp16" : "bf16";
  if (recipe == "delayed") options.assume("fp8 with delayed scaling: the bytes and rates of fp8_tensorwise");
  if (recipe == "mxfp8") return "mxfp8";
  if (recipe == "blockwise") return "fp8_blockwise";
  if (recipe != "delayed" && recipe != "tensorwise") options.unsupported("fp8_recipe", "as tensorwise");
  return "fp8_tensorwise";
}

std::string bracketed(const std::vector<std::string>& names) {
  std::string list;
  for (const std::string& name : names) list += (list.empty() ? "" : ", ") + name;
  return "[" + list + "]";
}

void cuda_graphs(MegatronOptions& options, Section& section) {
  std::string kind = options.text_or("cuda_graph_impl", "none");
  if (options.flag("enable_cuda_graph")) kind = "local";
  if (options.flag("external_cuda_graph")) kind = "transformer_engine";
  if (kind != "none" && kind != "local" && kind != "transformer_engine") {
    options.fault("cuda_graph_impl", "expected none, local or transformer_engine, got '" + one_line(kind) + "'");
    return;
  }
  std::vector<std::string> scope = options.list("cuda_graph_scope");
  if (kind == "none") return;
  const auto whole = std::find(scope.begin(), scope.end(), "full_iteration");
  if (whole != scope.end()) kind = "full_iteration";
  section.add("cuda_graph_impl", kind);
  std::erase_if(scope, [](const std::string& s) { return s == "full" || s == "full_iteration"; });
  if (kind != "full_iteration" && !scope.empty()) section.add("cuda_graph_scope", bracketed(scope));
}

void unfused_activation(MegatronOptions& options, const Architecture& arch, Section& section) {
  const bool gelu = options.flag("no_bias_gelu_fusion"), swiglu = options.flag("no_bias_swiglu_fusion");
  if (arch.mlp == model::MlpKind::gelu ? gelu : swiglu) section.add("bias_activation_fusion", "false");
}

void fp8_parameters(MegatronOptions& options, const std::string& format, Section& section) {
  if (!options.flag("fp8_param_gather")) return;
  if (format == "fp8_tensorwise" || format == "fp8_blockwise" || format == "mxfp8") {
    section.add("fp8_param_gather", "true");
  } else {
    options.unsupported("fp8_param_gather", "without it: no fp8 recipe is stated");
  }
}

std::string training(MegatronOptions& options, const Architecture& arch, std::int64_t gpus) {
  Section section("training");
  const std::int64_t micro = options.required("micro_batch_size");
  std::int64_t global = options.size_or("global_batch_size", 0);
  const std::int64_t replica = std::max<std::int64_t>(1, options.size_or("tensor_model_parallel_size", 1)) *
                               std::max<std::int64_t>(1, options.size_or("context_parallel_size", 1));
  const std::int64_t pp = std::max<std::int64_t>(1, options.size_or("pipeline_model_parallel_size", 1));
  // Sizes above 2^20 are refused when the scenario is read; here they must not overflow.
  if (global == 0 && replica < (1 << 20) && pp < (1 << 20) && micro < (1 << 20)) {
    global = micro * std::max<std::int64_t>(1, gpus / (replica * pp));
    options.assume("no --global-batch-size: Megatron's default, one microbatch of each replica");
  }
  section.add("micro_batch_size", micro);
  section.add("global_batch_size", global);
  const std::int64_t sequence = options.required("seq_length");
  section.add("seq_length", sequence);
  const std::string format = precision(options);
  section.add("precision", format);
  // Megatron computes the loss unfused unless asked.
  section.add("cross_entropy_loss_fusion", options.flag("cross_entropy_loss_fusion") ? "true" : "false");
  if (options.text_or("cross_entropy_fusion_impl", "native") == "te" && options.flag("cross_entropy_loss_fusion")) {
    section.add("cross_entropy_fusion_impl", "te");
  }
  const double dropout = options.real("attention_dropout").value_or(0.1);  // Megatron's default
  if (options.text_or("attention_backend", "auto") == "unfused") {
    section.add("attention_backend", "unfused");
    if (dropout > 0) section.add("attention_dropout", fmt::format("{}", dropout));
  }
  // Megatron's default, too.
  const double hidden = options.real("hidden_dropout").value_or(0.1);
  if (hidden > 0) section.add("hidden_dropout", fmt::format("{}", hidden));
  unfused_activation(options, arch, section);
  fp8_parameters(options, format, section);
  cuda_graphs(options, section);
  for (const char* key : {"tp_comm_overlap", "overlap_grad_reduce", "overlap_param_gather"}) {
    if (options.flag(key)) section.add(key, "true");
  }
  // Megatron's default with virtual stages is to overlap; a dump states the outcome.
  const bool off = options.flag("no_overlap_p2p_communication");
  if (off || (options.given("overlap_p2p_comm") && !options.flag("overlap_p2p_comm")))
    section.add("overlap_p2p_comm", "false");
  const double iterations = static_cast<double>(options.integer_or("train_iters", 0));
  const double samples = static_cast<double>(options.integer_or("train_samples", 0));
  const double tokens = std::max(samples, iterations * static_cast<double>(global)) * static_cast<double>(sequence);
  if (tokens > 0) section.add("total_tokens", fmt::format("{:.6g}", tokens));
  return section.text();
}

// "torch.bfloat16" and "bf16" alike; a type that is not known is a fault.
std::string dtype(MegatronOptions& options, const std::string& name) {
  const std::string text = options.text_or(name, "fp32");
  static constexpr std::array<std::pair<const char*, const char*>, 8> kNames = {{{"fp32", "fp32"},
                                                                                 {"torch.float32", "fp32"},
                                                                                 {"bf16", "bf16"},
                                                                                 {"torch.bfloat16", "bf16"},
                                                                                 {"fp16", "fp16"},
                                                                                 {"torch.float16", "fp16"},
                                                                                 {"fp8", "fp8"},
                                                                                 {"torch.uint8", "fp8"}}};
  for (const auto& [known, result] : kNames) {
    if (text == known) return result;
  }
  options.fault(name, "expected fp32, bf16, fp16 or fp8, got '" + one_line(text) + "'");
  return "fp32";
}

std::string sharding(MegatronOptions& options) {
  const bool custom = options.flag("use_custom_fsdp"), fsdp = options.flag("use_megatron_fsdp") || custom;
  const bool torch = options.flag("use_torch_fsdp2"), distributed = options.flag("use_distributed_optimizer");
  const std::string strategy = options.text_or("data_parallel_sharding_strategy", "no_shard");
  if (torch) return "fsdp2";
  if (!fsdp) return distributed ? "zero1" : "ddp";
  if (strategy == "optim_grads_params") return "megatron_fsdp";
  if (strategy == "optim_grads") return "zero2";
  if (strategy == "optim") return "zero1";
  if (strategy != "no_shard") {
    options.fault("data_parallel_sharding_strategy",
                  "expected no_shard, optim, optim_grads or optim_grads_params, got '" + one_line(strategy) + "'");
  }
  return "ddp";
}

std::string optimizer(MegatronOptions& options, std::int64_t gpus) {
  Section section("optimizer");
  const std::string method = options.text_or("optimizer", "adam");
  const std::string divided = sharding(options);
  // Muon with the distributed optimizer, and layer-wise by its own name, are one.
  const bool dealt = method == "dist_muon" || (method == "muon" && divided == "zero1");
  const bool muon = dealt || method == "muon";
  if (method != "adam" && !muon) options.unsupported("optimizer", "with adam");
  section.add("kind", dealt ? "dist_muon" : muon ? "muon" : "adam");
  const std::string kind = dealt ? "zero1" : muon ? "ddp" : divided;
  section.add("sharding", kind);
  if (options.flag("no_gradient_accumulation_fusion")) section.add("gradient_accumulation_fusion", "false");
  const std::int64_t instances = options.size_or("num_distributed_optimizer_instances", 1);
  const std::int64_t model_parallel = std::max<std::int64_t>(1, options.size_or("tensor_model_parallel_size", 1)) *
                                      std::max<std::int64_t>(1, options.size_or("pipeline_model_parallel_size", 1));
  if (instances > 1 && kind != "ddp") {
    const std::int64_t replicas = gpus / model_parallel;
    if (replicas % instances != 0) {
      options.fault("num_distributed_optimizer_instances",
                    fmt::format("{} replicas are not whole groups of {}", replicas, instances));
    } else {
      section.add("shard_group", replicas / instances);
    }
  }
  const std::optional<double> fraction = options.real("optimizer_offload_fraction");
  if (options.flag("optimizer_cpu_offload")) {
    section.add("cpu_offload", "true");
    if (fraction) section.add("offload_fraction", fmt::format("{}", *fraction));
  }
  const bool aware = options.flag("use_precision_aware_optimizer");
  const bool bf16_gradients = options.flag("grad_reduce_in_bf16");
  for (const char* name : {"main_grads_dtype", "main_params_dtype", "exp_avg_dtype", "exp_avg_sq_dtype"}) {
    const std::string type = dtype(options, name);
    const bool gradients = std::string(name) == "main_grads_dtype";
    section.add(name, gradients && bf16_gradients ? "bf16" : aware ? type : "fp32");
    if (!aware && type != "fp32") options.unsupported(name, "with fp32: it needs --use-precision-aware-optimizer");
  }
  return section.text();
}

std::string memory(MegatronOptions& options) {
  std::string granularity = options.text_or("recompute_granularity", "none");
  if (options.flag("recompute_activations") && granularity == "none") granularity = "selective";
  const std::string method = options.text_or("recompute_method", "uniform");
  const std::int64_t layers = options.size_or("recompute_num_layers", 1);
  const std::vector<std::string> modules = options.list("recompute_modules");
  if (granularity != "none" && granularity != "selective" && granularity != "full") {
    options.fault("recompute_granularity", "expected selective or full, got '" + one_line(granularity) + "'");
  }
  if (method != "uniform" && method != "block" && method != "None") {
    options.fault("recompute_method", "expected uniform or block, got '" + one_line(method) + "'");
  }
  const bool block = granularity == "full" && method == "block";
  Section section("memory");
  section.add("recompute_granularity", granularity);
  if (block) {
    section.add("recompute_method", "block");
    section.add("recompute_num_layers", layers);
  } else if (granularity == "full" && layers > 1) {
    section.add("recompute_method", "uniform");
    section.add("recompute_num_layers", layers);
  }
  const std::vector<std::string> offloaded = options.list("offload_modules");
  if (options.flag("fine_grained_activation_offloading") && !offloaded.empty()) {
    for (const std::string& module : offloaded) {
      const auto known = offload_module_names();
      if (std::find(known.begin(), known.end(), module) == known.end())
        options.fault("offload_modules", "unknown module '" + one_line(module) + "'");
    }
    section.add("offload_modules", bracketed(offloaded));
  }
  if (granularity != "selective" || modules.empty()) return section.text();
  std::vector<std::string> known;
  for (const std::string& module : modules) {
    static constexpr std::array<std::string_view, 7> kModules = {"core_attn", "layernorm", "mla_up_proj",   "moe_act",
                                                                 "mlp",       "moe",       "shared_experts"};
    if (std::find(kModules.begin(), kModules.end(), module) == kModules.end()) {
      options.fault("recompute_modules", "unknown module '" + one_line(module) + "'");
    } else {
      known.push_back(module);
    }
  }
  section.add("recompute_modules", bracketed(known));
  return section.text();
}

std::string dispatcher(MegatronOptions& options) {
  const std::string kind = options.text_or("moe_token_dispatcher_type", "allgather");
  const std::string backend = options.text_or("moe_flex_dispatcher_backend", "deepep");
  const bool deepep = options.flag("moe_enable_deepep");
  if (kind == "flex") {
    if (deepep || backend == "deepep") return "deepep";
    if (backend == "hybridep") return "hybridep";
    options.unsupported("moe_flex_dispatcher_backend", "as deepep");
    return "deepep";
  }
  if (kind == "alltoall" || kind == "allgather") return kind;
  if (kind == "alltoall_seq") {
    options.unsupported("moe_token_dispatcher_type", "as alltoall");
  } else {
    options.fault("moe_token_dispatcher_type", "expected allgather, alltoall or flex, got '" + one_line(kind) + "'");
  }
  return "alltoall";
}

void dispatch(MegatronOptions& options, Section& section) {
  const std::string kind = dispatcher(options);
  if (!options.given("moe_token_dispatcher_type")) {
    options.assume("no --moe-token-dispatcher-type: allgather, Megatron's default");
  }
  section.add("dispatcher", kind);
  const auto deepep_sms = options.integer("moe_deepep_num_sms"), hybridep_sms = options.integer("moe_hybridep_num_sms");
  const auto& sms = kind == "hybridep" ? hybridep_sms : deepep_sms;
  if (sms && (kind == "deepep" || kind == "hybridep")) section.add("dispatcher_sms", *sms);
  const bool overlap = options.flag("overlap_moe_expert_parallel_comm"), delayed = options.flag("delay_wgrad_compute");
  if (overlap) section.add("overlap_moe_expert_parallel_comm", "true");
  if (overlap && delayed) section.add("delay_wgrad_compute", "true");
  // Without grouped products Megatron runs its experts one by one.
  if (!options.flag("moe_grouped_gemm")) section.add("grouped_gemm", "false");
  if (!options.flag("moe_permute_fusion")) section.add("permute_fusion", "false");
  if (options.flag("moe_router_fusion")) section.add("router_fusion", "true");
  if (options.flag("use_transformer_engine_op_fuser")) section.add("use_transformer_engine_op_fuser", "true");
  const std::optional<double> rank_factor = options.real("moe_expert_rank_capacity_factor");
  if (rank_factor && *rank_factor > 0) {
    section.add("expert_rank_capacity_factor", fmt::format("{}", *rank_factor));
    if (options.flag("moe_paged_stash")) section.add("paged_stash", "true");
  }
}

std::string moe_and_routing(MegatronOptions& options) {
  Section section("moe");
  dispatch(options, section);
  const std::optional<double> factor = options.real("moe_expert_capacity_factor");
  const bool pad = options.flag("moe_pad_expert_input_to_capacity");
  const std::string drop = options.text_or("moe_token_drop_policy", "probs");
  if (factor && *factor > 0) {
    section.add("policies", fmt::format("{{ capacity: {{ factor: {}, pad: {}, drop_policy: {} }} }}", *factor, pad,
                                        drop == "position" ? "position" : "probs"));
  }
  if (drop != "position" && drop != "probs") {
    options.fault("moe_token_drop_policy", "expected probs or position, got '" + one_line(drop) + "'");
  }
  if (!options.flag("moe_router_force_load_balancing")) {
    options.assume(
        "routing: even over all experts, because options do not say it; a recorded trace shows the real one");
  }
  Section routing("routing");
  routing.add("balanced", "true");
  return section.text() + "\n" + routing.text();
}

}  // namespace

std::string megatron_sections(MegatronOptions& options, const Architecture& arch, std::int64_t gpus) {
  if (!options.given("hidden_dropout")) options.assume("no --hidden-dropout: 0.1, Megatron's default");
  if (!options.given("attention_dropout")) {
    options.assume("no --attention-dropout: 0.1, Megatron's default, which fused kernels keep no mask of");
  }
  std::string text = parallel(options, arch) + "\n" + training(options, arch, gpus) + "\n" + optimizer(options, gpus) +
                     "\n" + memory(options);
  if (arch.moe.experts > 0) return text + "\n" + moe_and_routing(options);
  options.no_part({"moe_router_topk",
                   "moe_ffn_hidden_size",
                   "moe_layer_freq",
                   "moe_token_dispatcher_type",
                   "moe_token_drop_policy",
                   "moe_shared_expert_intermediate_size",
                   "moe_router_num_groups",
                   "moe_router_group_topk",
                   "moe_expert_capacity_factor",
                   "expert_tensor_parallel_size",
                   "moe_flex_dispatcher_backend",
                   "moe_permute_fusion",
                   "moe_router_fusion",
                   "use_transformer_engine_op_fuser",
                   "moe_enable_deepep",
                   "moe_deepep_num_sms",
                   "moe_hybridep_num_sms",
                   "moe_expert_rank_capacity_factor",
                   "moe_paged_stash",
                   "overlap_moe_expert_parallel_comm",
                   "delay_wgrad_compute"});
  return text;
}

}  // namespace moeplan::scenario
