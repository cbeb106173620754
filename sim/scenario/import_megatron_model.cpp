#include <fmt/core.h>

#include <algorithm>
#include <string_view>

#include "config/data.h"
#include "model/layer_pattern.h"
#include "scenario/import_megatron_sections.h"

// Shapes as Megatron-Core's argument parser and its GPT layers make them of the options.
namespace moeplan::scenario {
namespace {

using model::Architecture;
using model::LayerKind;

constexpr std::int64_t kMostWidth = std::int64_t{1} << 24;  // products of two stay exact; model files are narrower

// least: 0 where Megatron takes 0 as "none".
std::int64_t width(MegatronOptions& options, const std::string& name, std::int64_t fallback, std::int64_t least = 1) {
  const std::int64_t value = least > 0 ? options.size_or(name, fallback) : options.integer_or(name, fallback);
  if (value <= kMostWidth) return value;
  options.fault(name, fmt::format("expected at most {}, got '{}'", kMostWidth, value));
  return 0;
}

void read_mlp(MegatronOptions& options, Architecture& arch) {
  const bool gated = options.flag("swiglu") || options.flag("quick_geglu");
  arch.mlp = gated ? model::MlpKind::swiglu : model::MlpKind::gelu;
  // The parser's own default: 4 h, or for SwiGLU two thirds of it in multiples of 64.
  const std::int64_t usual = options.flag("swiglu") ? arch.hidden * 8 / 3 / 64 * 64 : 4 * arch.hidden;
  arch.dense_ffn = width(options, "ffn_hidden_size", usual);
}

void read_norms_and_biases(MegatronOptions& options, Architecture& arch) {
  const std::string norm = options.text_or("normalization", "LayerNorm");
  arch.layer_norm_bias = norm == "LayerNorm";
  if (norm != "LayerNorm" && norm != "RMSNorm") {
    options.fault("normalization", "expected LayerNorm or RMSNorm, got '" + one_line(norm) + "'");
  }
  const bool disabled = options.flag("disable_bias_linear");
  arch.linear_bias = options.given("add_bias_linear") ? options.flag("add_bias_linear") : !disabled && !options.dump();
  arch.attention.output_bias = arch.linear_bias;
  arch.tied_embeddings = !options.flag("untie_embeddings_and_output_weights");
  const bool rotary = options.flag("use_rotary_position_embeddings");
  const std::string position = options.text_or("position_embedding_type", rotary ? "rope" : "learned_absolute");
  const std::int64_t positions = options.size_or("max_position_embeddings", 0);
  if (position == "learned_absolute") {
    arch.learned_positions = positions;
    if (positions == 0) options.required("max_position_embeddings");
  } else if (position != "rope" && position != "yarn" && position != "none") {
    options.unsupported("position_embedding_type", "as rope");
  }
}

void read_grouped_attention(MegatronOptions& options, Architecture& arch) {
  model::Attention& a = arch.attention;
  const bool grouped = options.flag("group_query_attention");
  const std::int64_t groups = options.size_or("num_query_groups", 1);
  a.kv_heads = grouped ? groups : a.heads;
  a.head_dim = width(options, "kv_channels", a.heads > 0 ? arch.hidden / a.heads : 0);
  a.qkv_bias = options.flag("add_qkv_bias") || arch.linear_bias;
  a.qk_norm = options.flag("qk_layernorm");
  const std::string softmax = options.text_or("softmax_type", "vanilla");
  a.sinks = softmax == "learnable";
  if (softmax != "vanilla" && softmax != "learnable") options.unsupported("softmax_type", "as vanilla");
  options.no_part({"q_lora_rank", "kv_lora_rank", "qk_head_dim", "qk_pos_emb_head_dim", "v_head_dim",
                   "mla_down_proj_fusion", "cache_mla_latents"});
}

void read_latent_attention(MegatronOptions& options, Architecture& arch) {
  model::Attention& a = arch.attention;
  a.kind = model::AttentionKind::mla;
  a.kv_heads = a.heads;
  a.q_lora_rank = width(options, "q_lora_rank", 0, 0);
  a.kv_lora_rank = width(options, "kv_lora_rank", 32);
  a.qk_nope_dim = width(options, "qk_head_dim", 128);
  a.qk_rope_dim = width(options, "qk_pos_emb_head_dim", 64, 0);
  a.v_head_dim = width(options, "v_head_dim", 128);
  if (!options.flag("qk_layernorm")) {
    options.unsupported_at(
        "multi_latent_attention",
        "latent attention without --qk-layernorm: not supported in this version, simulated with norms");
  }
  options.no_part({"group_query_attention", "num_query_groups", "kv_channels", "add_qkv_bias", "softmax_type",
                   "mla_down_proj_fusion", "cache_mla_latents"});
}

// A pattern of 0 and 1 a layer from text, or empty with a fault.
std::vector<int> pattern(MegatronOptions& options, const std::string& name, const std::string& text,
                         std::size_t layers) {
  const model::FrequencyPattern found = model::parse_frequency_pattern(text, "0 or 1");
  if (!found.error.empty()) {
    options.fault(name, found.error);
  } else if (found.values.size() != layers) {
    options.fault(name, fmt::format("expected {} entries, one a layer, got {}", layers, found.values.size()));
  } else {
    return found.values;
  }
  return {};
}

// "128" or "(127, 0)": the keys before the query's own.
void read_windows(MegatronOptions& options, Architecture& arch) {
  std::string digits;
  for (const std::string& part : options.list("window_size")) digits += part + " ";
  const std::string frequency = options.text_or("window_attn_skip_freq", "");
  if (digits.empty()) return;
  const std::size_t first = digits.find_first_of("0123456789");
  const std::size_t last = digits.find_first_not_of("0123456789", first);
  const auto left = first == std::string::npos ? std::nullopt : whole_number(digits.substr(first, last - first));
  if (!left || *left > kMostWidth) {
    options.fault("window_size", "expected two numbers, such as 127,0; got '" + one_line(digits) + "'");
    return;
  }
  arch.windows.assign(arch.layers.size(), *left + 1);
  if (frequency.empty()) return;
  const std::optional<std::int64_t> every = whole_number(frequency);
  const std::vector<int> listed =
      every ? std::vector<int>() : pattern(options, "window_attn_skip_freq", frequency, arch.layers.size());
  for (std::size_t i = 0; i < arch.layers.size(); ++i) {
    const bool skipped =
        every ? *every > 0 && (i + 1) % static_cast<std::size_t>(*every) == 0 : i < listed.size() && listed[i] == 0;
    if (skipped) arch.windows[i] = 0;
  }
}

void read_experts(MegatronOptions& options, Architecture& arch) {
  model::Moe& moe = arch.moe;
  moe.experts = options.integer_or("num_experts", 0);
  if (moe.experts == 0) return;
  moe.top_k = options.size_or("moe_router_topk", 2);
  moe.ffn = width(options, "moe_ffn_hidden_size", arch.dense_ffn);
  moe.shared_ffn = width(options, "moe_shared_expert_intermediate_size", 0, 0);
  moe.shared_gate = options.flag("moe_shared_expert_gate");
  moe.correction_bias = options.flag("moe_router_enable_expert_bias");
  moe.expert_bias = arch.linear_bias;
  moe.groups = options.integer_or("moe_router_num_groups", 0);
  moe.groups_limit = options.integer_or("moe_router_group_topk", 0);
  const std::string frequency = options.text_or("moe_layer_freq", "1");
  const std::optional<std::int64_t> every = whole_number(frequency);
  const std::vector<int> listed =
      every ? std::vector<int>() : pattern(options, "moe_layer_freq", frequency, arch.layers.size());
  if (every && *every == 0) options.fault("moe_layer_freq", "expected an integer >= 1, got '0'");
  for (std::size_t i = 0; i < arch.layers.size(); ++i) {
    const bool has =
        every ? *every > 0 && i % static_cast<std::size_t>(*every) == 0 : i < listed.size() && listed[i] == 1;
    if (has) arch.layers[i] = LayerKind::moe;
  }
  if (arch.moe_layer_count() == arch.layer_count()) arch.dense_ffn = 0;
}

void read_vocabulary(MegatronOptions& options, const MegatronSettings& settings, Architecture& arch) {
  arch.vocab_divisor = options.size_or("make_vocab_size_divisible_by", 128);
  const std::int64_t stated = width(options, "vocab_size", 0), padded = width(options, "padded_vocab_size", 0);
  arch.vocab = settings.vocabulary > 0 ? settings.vocabulary : stated > 0 ? stated : padded;
}

std::int64_t padded(std::int64_t vocab, std::int64_t divisor, std::int64_t tp) {
  const std::int64_t unit = std::max<std::int64_t>(divisor, 1) * std::max<std::int64_t>(tp, 1);
  return unit > kMostWidth ? vocab : (vocab + unit - 1) / unit * unit;
}

bool same_shape(Architecture a, const Architecture& b, std::int64_t tp) {
  a.moe.correction_bias = b.moe.correction_bias;  // no parameter and no time
  a.activation_clamp = b.activation_clamp;        // no parameter
  const auto windows = [](const Architecture& m) {
    std::vector<std::int64_t> all;
    for (std::size_t i = 0; i < m.layers.size(); ++i) all.push_back(m.window(i));
    return all;
  };
  const bool vocabulary = a.vocab == 0 || a.vocab == b.vocab || a.vocab == padded(b.vocab, a.vocab_divisor, tp);
  return vocabulary && a.hidden == b.hidden && a.dense_ffn == b.dense_ffn && a.tied_embeddings == b.tied_embeddings &&
         a.learned_positions == b.learned_positions && a.mlp == b.mlp && a.linear_bias == b.linear_bias &&
         a.layer_norm_bias == b.layer_norm_bias && a.attention == b.attention && a.moe == b.moe &&
         a.layers == b.layers && a.mtp_layers == b.mtp_layers && windows(a) == windows(b);
}

}  // namespace

Architecture megatron_model(MegatronOptions& options, const MegatronSettings& settings) {
  Architecture arch;
  arch.id = settings.name;
  arch.title = settings.name;
  arch.source = "imported from options of Megatron";
  const std::int64_t layers = options.required("num_layers");
  options.required("hidden_size");
  arch.hidden = width(options, "hidden_size", 0);
  arch.attention.heads = options.required("num_attention_heads");
  if (layers > model::kMaxLayers) {
    options.fault("num_layers", fmt::format("expected at most {} layers, got '{}'", model::kMaxLayers, layers));
    return arch;
  }
  arch.layers.assign(static_cast<std::size_t>(layers), LayerKind::dense);
  read_mlp(options, arch);
  read_norms_and_biases(options, arch);
  if (options.flag("multi_latent_attention")) {
    read_latent_attention(options, arch);
  } else {
    read_grouped_attention(options, arch);
  }
  read_windows(options, arch);
  read_experts(options, arch);
  read_vocabulary(options, settings, arch);
  arch.mtp_layers = options.integer_or("mtp_num_layers", 0);
  return arch;
}

std::string shipped_model(Architecture& arch, std::int64_t tp) {
  for (const config::DataFile& file : config::embedded_files("models")) {
    base::Faults faults;
    const Architecture shipped = model::read_architecture(config::parse_yaml(file.text, file.label), file.name, faults);
    if (!faults.empty() || !same_shape(arch, shipped, tp)) continue;
    if (arch.vocab == 0) arch.vocab = shipped.vocab;
    return file.name;
  }
  return "";
}

}  // namespace moeplan::scenario
