#include "model/import_hf.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <optional>
#include <string_view>
#include <utility>

#include "base/nearest.h"
#include "model/hf_fields.h"
#include "model/layer_pattern.h"

namespace moeplan::model {
namespace {

struct Family {
  std::string_view architecture, model_type;
  void (*read)(HfFields&, Architecture&);
};
constexpr std::array<Family, 13> kFamilies = {{
    {"LlamaForCausalLM", "llama", read_llama},
    {"MistralForCausalLM", "mistral", read_mistral},
    {"Qwen2ForCausalLM", "qwen2", read_qwen2},
    {"Qwen3ForCausalLM", "qwen3", read_qwen3},
    {"MixtralForCausalLM", "mixtral", read_mixtral},
    {"Qwen2MoeForCausalLM", "qwen2_moe", read_qwen2_moe},
    {"Qwen3MoeForCausalLM", "qwen3_moe", read_qwen3_moe},
    {"GptOssForCausalLM", "gpt_oss", read_gpt_oss},
    {"OlmoeForCausalLM", "olmoe", read_olmoe},
    {"Glm4MoeForCausalLM", "glm4_moe", read_glm4_moe},
    {"DeepseekV2ForCausalLM", "deepseek_v2", read_deepseek},
    {"DeepseekV3ForCausalLM", "deepseek_v3", read_deepseek},
    {"KimiK2ForCausalLM", "kimi_k2", read_deepseek},
}};

// Known by name, and why they are refused.
struct Refused {
  std::string_view architecture, reason;
};
constexpr std::array<Refused, 14> kRefused = {{
    {"Qwen3NextForCausalLM", "linear attention layers"},
    {"Qwen3_5MoeForCausalLM", "linear attention layers"},
    {"KimiLinearForCausalLM", "linear attention layers"},
    {"MiniMaxText01ForCausalLM", "linear attention layers"},
    {"MiniMaxM1ForCausalLM", "linear attention layers"},
    {"BailingMoeLinearForCausalLM", "linear attention layers"},
    {"MambaForCausalLM", "state-space (mamba) layers"},
    {"Mamba2ForCausalLM", "state-space (mamba) layers"},
    {"JambaForCausalLM", "state-space (mamba) layers"},
    {"BambaForCausalLM", "state-space (mamba) layers"},
    {"NemotronHForCausalLM", "state-space (mamba) layers"},
    {"GraniteMoeHybridForCausalLM", "state-space (mamba) layers"},
    {"DeepseekV32ForCausalLM", "sparse attention layers"},
    {"GlmMoeDsaForCausalLM", "sparse attention layers"},
}};

// Fields that change the layers in a way that no model file expresses.
constexpr std::array<Refused, 9> kRefusedFields = {{
    {"index_topk", "sparse attention layers"},
    {"index_n_heads", "sparse attention layers"},
    {"linear_attn_config", "linear attention layers"},
    {"linear_num_key_heads", "linear attention layers"},
    {"full_attention_interval", "linear attention layers"},
    {"mamba_d_state", "state-space (mamba) layers"},
    {"hybrid_override_pattern", "state-space (mamba) layers"},
    {"vision_config", "vision towers"},
    {"audio_config", "audio towers"},
}};

// Fields that change neither shapes nor costs: tokens, initial values, rotary angles, losses, how a checkpoint is
// stored or served.
constexpr std::array<std::string_view, 66> kIrrelevant = {"_name_or_path",
                                                          "architectures",
                                                          "model_type",
                                                          "auto_map",
                                                          "torch_dtype",
                                                          "dtype",
                                                          "transformers_version",
                                                          "use_cache",
                                                          "initializer_range",
                                                          "rms_norm_eps",
                                                          "layer_norm_eps",
                                                          "norm_eps",
                                                          "max_position_embeddings",
                                                          "original_max_position_embeddings",
                                                          "initial_context_length",
                                                          "rope_theta",
                                                          "rope_scaling",
                                                          "rope_parameters",
                                                          "rope_interleave",
                                                          "rope_ntk_alpha",
                                                          "partial_rotary_factor",
                                                          "attention_dropout",
                                                          "hidden_dropout",
                                                          "resid_pdrop",
                                                          "embd_pdrop",
                                                          "bos_token_id",
                                                          "eos_token_id",
                                                          "pad_token_id",
                                                          "sep_token_id",
                                                          "decoder_start_token_id",
                                                          "pretraining_tp",
                                                          "quantization_config",
                                                          "router_aux_loss_coef",
                                                          "router_z_loss_coef",
                                                          "router_jitter_noise",
                                                          "output_router_logits",
                                                          "output_attentions",
                                                          "output_hidden_states",
                                                          "return_dict",
                                                          "norm_topk_prob",
                                                          "routed_scaling_factor",
                                                          "scoring_func",
                                                          "seq_aux",
                                                          "aux_loss_alpha",
                                                          "ep_size",
                                                          "moe_router_dtype",
                                                          "clip_qkv",
                                                          "swiglu_limit",
                                                          "hidden_act_alpha",
                                                          "chunk_size_feed_forward",
                                                          "tokenizer_class",
                                                          "task_specific_params",
                                                          "problem_type",
                                                          "id2label",
                                                          "label2id",
                                                          "is_decoder",
                                                          "is_encoder_decoder",
                                                          "cross_attention_hidden_size",
                                                          "max_length",
                                                          "min_length",
                                                          "temperature",
                                                          "top_p",
                                                          "top_k",
                                                          "unsloth_fixed",
                                                          "unsloth_version",
                                                          "is_llama_config"};

std::vector<std::string> names_of(bool model_types) {
  std::vector<std::string> names;
  for (const Family& family : kFamilies) names.emplace_back(model_types ? family.model_type : family.architecture);
  return names;
}

const Family* family_of(const std::string& name, bool by_model_type) {
  const auto family = std::find_if(kFamilies.begin(), kFamilies.end(), [&](const Family& candidate) {
    return name == (by_model_type ? candidate.model_type : candidate.architecture);
  });
  return family == kFamilies.end() ? nullptr : &*family;
}

// By `architectures`, or by `model_type` where it does not say. Null with a fault for one that is not supported.
const Family* find_family(HfFields& fields) {
  const std::vector<std::string> architectures = fields.texts("architectures");
  const bool by_model_type = architectures.empty();
  const std::string key = by_model_type ? "model_type" : "architectures";
  const std::string name = by_model_type ? fields.text_or("model_type", "") : architectures.front();
  if (name.empty()) {
    fields.fault(key, "missing key 'architectures': which family is this?",
                 "supported: " + base::join_names(names_of(false)));
    return nullptr;
  }
  if (const Family* family = family_of(name, by_model_type)) return family;
  const auto refused =
      std::find_if(kRefused.begin(), kRefused.end(), [&](const Refused& r) { return r.architecture == name; });
  if (refused != kRefused.end()) {
    fields.fault(key, fmt::format("'{}' has {}, which are not supported in this version", name, refused->reason));
    return nullptr;
  }
  const std::vector<std::string> known = names_of(by_model_type);
  const std::string hint = base::nearest_hint(name, known);
  fields.fault(key, fmt::format("unknown architecture '{}'", name),
               hint.empty() ? "supported: " + base::join_names(known) : hint);
  return nullptr;
}

void read_common(HfFields& fields, Architecture& arch) {
  arch.hidden = fields.integer("hidden_size");
  arch.vocab = fields.integer("vocab_size");
  arch.tied_embeddings = fields.flag_or("tie_word_embeddings", false);
  const std::int64_t layers = fields.integer("num_hidden_layers");
  if (layers == 0 && fields.given("num_hidden_layers")) {
    fields.fault("num_hidden_layers", "expected an integer >= 1, got '0'");
  } else if (layers > kMaxLayers) {
    fields.fault("num_hidden_layers", fmt::format("expected at most {} layers, got '{}'", kMaxLayers, layers));
  } else {
    arch.layers.assign(static_cast<std::size_t>(layers), LayerKind::dense);
  }
  const std::string activation = fields.text_or("hidden_act", "silu");
  if (activation != "silu" && activation != "swish") {
    fields.fault("hidden_act",
                 fmt::format("expected silu (gated, SwiGLU), got '{}': not supported in this version", activation));
  }
}

void refuse_fields(HfFields& fields) {
  for (const auto& [key, reason] : kRefusedFields) {
    if (!fields.given(key)) continue;
    fields.fault(key, fmt::format("'{}' means {}, which are not supported in this version", key, reason));
  }
}

// Keys that nobody asked for: known to be irrelevant, or named.
void warn_unread(const HfFields& fields, const config::Node& root, std::vector<base::Fault>& warnings) {
  for (const std::string& key : fields.unread()) {
    if (std::find(kIrrelevant.begin(), kIrrelevant.end(), key) != kIrrelevant.end()) continue;
    warnings.push_back({root.key_where(key),
                        fmt::format("unknown field '{}': ignored; check that it does not change the shape", key),
                        {},
                        {}});
  }
}

// The rules of model files hold for imported ones too. Their messages name keys of a model file, so the key is said.
void check_as_model_file(const config::Node& root, const Architecture& arch, base::Faults& faults) {
  try {
    base::Faults found;
    read_architecture(config::parse_yaml(model_yaml(arch), "model file"), arch.id, found);
    found.throw_if_any();
  } catch (const base::Error& error) {
    for (const base::Fault& fault : error.faults()) {
      faults.add(root.where(),
                 "as a model file, " + (fault.where.key.empty() ? "it" : fault.where.key) + ": " + fault.message,
                 fault.hint);
    }
  }
}

}  // namespace

bool looks_like_hf_config(const config::Node& root) {
  if (root.kind() != config::Node::Kind::map || root.has("source") || root.has("attention")) return false;
  return root.has("architectures") || root.has("model_type");
}

std::vector<std::string> hf_architectures() { return names_of(false); }

Architecture import_hf(const config::Node& config_json, const std::string& name, base::Faults& faults,
                       std::vector<base::Fault>& warnings) {
  const std::size_t before = faults.size();
  HfFields fields(config_json, faults);
  Architecture arch;
  arch.id = name;
  arch.title = name;
  const Family* family = find_family(fields);
  if (family == nullptr) return arch;
  arch.source = fmt::format("imported from a config.json of {}", family->architecture);
  refuse_fields(fields);
  read_common(fields, arch);
  if (faults.size() != before) return arch;  // a family reader would divide by what is missing
  family->read(fields, arch);
  warn_unread(fields, config_json, warnings);
  if (faults.size() == before) check_as_model_file(config_json, arch, faults);
  arch.where_hidden = fields.where("hidden_size");
  arch.where_layers = fields.where("num_hidden_layers");
  arch.where_top_k = fields.where("num_experts_per_tok");
  for (const char* key : {"n_routed_experts", "num_local_experts", "num_experts"}) {
    if (fields.given(key)) arch.where_experts = fields.where(key);
  }
  return arch;
}

ModelFile model_file(const config::Node& root, const std::string& name, base::Faults& faults,
                     std::vector<base::Fault>& warnings) {
  ModelFile file{root, false, {}, {}, {}, {}};
  if (!looks_like_hf_config(root)) return file;
  const std::size_t before = faults.size();
  const Architecture arch = import_hf(root, name, faults, warnings);
  if (faults.size() != before) return file;
  file.root = config::parse_yaml(model_yaml(arch), root.where().file + " (as a model file)");
  file.imported = true;
  file.where_experts = arch.where_experts;
  file.where_layers = arch.where_layers;
  file.where_top_k = arch.where_top_k;
  file.where_hidden = arch.where_hidden;
  return file;
}

std::string model_name_of(const std::string& path) {
  const std::filesystem::path file(path);
  if (file.stem() != "config") return file.stem().string();
  std::error_code error;
  const std::filesystem::path folder = std::filesystem::absolute(file, error).lexically_normal().parent_path();
  const std::string name = folder.filename().string();
  return error || name.empty() ? "config" : name;
}

}  // namespace moeplan::model
