#include <fmt/core.h>

#include <array>
#include <cstddef>
#include <string>

#include "base/check.h"
#include "model/import_hf.h"

namespace moeplan::model {
namespace {

// Double-quoted, so that any text stays a text.
std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (byte < 0x20 || byte == 0x7f) {
      result += fmt::format("\\x{:02x}", byte);
    } else {
      result += c;
    }
  }
  return result + "\"";
}

// Writes the keys that differ from their defaults.
class Writer {
 public:
  explicit Writer(std::string& text, std::string indent = {}) : text_(text), indent_(std::move(indent)) {}
  void number(const char* key, std::int64_t value) { text_ += fmt::format("{}{}: {}\n", indent_, key, value); }
  void number(const char* key, std::int64_t value, std::int64_t fallback) {
    if (value != fallback) number(key, value);
  }
  void flag(const char* key, bool value, bool fallback) {
    if (value != fallback) text_ += fmt::format("{}{}: {}\n", indent_, key, value);
  }
  void word(const char* key, const std::string& value) { text_ += fmt::format("{}{}: {}\n", indent_, key, value); }

 private:
  std::string& text_;
  std::string indent_;
};

// Megatron's integer where the layers have that form (every n-th, counted from 1, without a window), else a list.
std::string window_layers(const Architecture& arch) {
  const std::size_t layers = arch.windows.size();
  std::size_t first = 0;
  while (first < layers && arch.windows[first] > 0) ++first;
  const std::size_t step = first + 1;
  bool periodic = true;
  for (std::size_t i = 0; i < layers; ++i) periodic = periodic && (arch.windows[i] > 0) == ((i + 1) % step != 0);
  if (periodic && step > 1) return fmt::format("{}", step);
  std::string list;
  for (const std::int64_t window : arch.windows)
    list += fmt::format("{}{}", list.empty() ? "" : ", ", window > 0 ? 1 : 0);
  return "[" + list + "]";
}

void write_windows(const Architecture& arch, Writer& writer) {
  std::int64_t size = 0;
  bool everywhere = true;
  for (const std::int64_t window : arch.windows) {
    MOEPLAN_CHECK(window == 0 || size == 0 || window == size, "a model file has one width of windows");
    if (window > 0) size = window;
    everywhere = everywhere && window > 0;
  }
  if (size == 0) return;
  writer.number("window_size", size);
  if (!everywhere) writer.word("window_attn_skip_freq", window_layers(arch));
}

void write_attention(const Architecture& arch, std::string& text) {
  const Attention& a = arch.attention;
  text += "attention:\n";
  Writer writer(text, "  ");
  writer.word("kind", a.kind == AttentionKind::mla ? "mla" : "gqa");
  writer.number("num_attention_heads", a.heads);
  if (a.kind == AttentionKind::mla) {
    writer.number("q_lora_rank", a.q_lora_rank, 0);
    writer.number("kv_lora_rank", a.kv_lora_rank);
    writer.number("qk_head_dim", a.qk_nope_dim);
    writer.number("qk_pos_emb_head_dim", a.qk_rope_dim);
    writer.number("v_head_dim", a.v_head_dim);
  } else {
    writer.number("num_query_groups", a.kv_heads);
    writer.number("kv_channels", a.head_dim);
    writer.flag("add_qkv_bias", a.qkv_bias, arch.linear_bias);
    writer.flag("qk_layernorm", a.qk_norm, false);
    writer.flag("qk_layernorm_all_heads", a.qk_norm_all_heads, false);
    writer.flag("sinks", a.sinks, false);
  }
  writer.flag("output_bias", a.output_bias, arch.linear_bias);
  write_windows(arch, writer);
}

void write_moe(const Architecture& arch, std::string& text) {
  const Moe& moe = arch.moe;
  text += "moe:\n";
  Writer writer(text, "  ");
  writer.number("num_experts", moe.experts);
  writer.number("moe_router_topk", moe.top_k);
  writer.number("moe_ffn_hidden_size", moe.ffn);
  writer.number("moe_shared_expert_intermediate_size", moe.shared_ffn, 0);
  writer.flag("moe_shared_expert_gate", moe.shared_gate, false);
  writer.flag("moe_router_enable_expert_bias", moe.correction_bias, false);
  writer.number("moe_router_num_groups", moe.groups, 0);
  writer.number("moe_router_group_topk", moe.groups_limit, 0);
  writer.flag("expert_bias", moe.expert_bias, arch.linear_bias);
}

void write_layers(const Architecture& arch, std::string& text) {
  text += "layers:\n";
  for (std::size_t i = 0, run = 0; i < arch.layers.size(); i += run) {
    run = 1;
    while (i + run < arch.layers.size() && arch.layers[i + run] == arch.layers[i]) ++run;
    text += fmt::format("  - {{ kind: {}, count: {} }}\n", arch.layers[i] == LayerKind::moe ? "moe" : "dense", run);
  }
}

void write_published(const Published& published, std::string& text) {
  if (published == Published()) return;
  const std::array<const char*, 3> conventions = {"everything", "without_embedding", "without_embedding_and_head"};
  text += "published:\n";
  if (published.total_parameters > 0) text += fmt::format("  total_parameters: {}\n", published.total_parameters);
  if (published.active_parameters > 0) {
    text += fmt::format("  active_parameters: {}\n  active_convention: {}\n", published.active_parameters,
                        conventions[static_cast<std::size_t>(published.active_convention)]);
  }
  text += "  source: " + quoted(published.source) + "\n";
}

}  // namespace

std::string model_yaml(const Architecture& arch) {
  std::string text =
      "name: " + quoted(arch.id) + "\ntitle: " + quoted(arch.title) + "\nsource: " + quoted(arch.source) + "\n";
  Writer writer(text);
  writer.number("hidden_size", arch.hidden);
  writer.number("vocab_size", arch.vocab);
  writer.number("make_vocab_size_divisible_by", arch.vocab_divisor, 128);
  writer.word("tie_word_embeddings", arch.tied_embeddings ? "true" : "false");
  writer.number("ffn_hidden_size", arch.dense_ffn, 0);
  if (arch.mlp == MlpKind::gelu) writer.word("mlp", "gelu");
  if (arch.layer_norm_bias) writer.word("normalization", "LayerNorm");
  writer.flag("add_bias_linear", arch.linear_bias, false);
  if (arch.activation_clamp > 0) text += fmt::format("activation_func_clamp_value: {}\n", arch.activation_clamp);
  writer.number("learned_positions", arch.learned_positions, 0);
  write_attention(arch, text);
  if (arch.moe_layer_count() > 0) write_moe(arch, text);
  write_layers(arch, text);
  writer.number("mtp_num_layers", arch.mtp_layers, 0);
  write_published(arch.published, text);
  return text;
}

}  // namespace moeplan::model
