#include "model/read_attention.h"

#include <fmt/core.h>

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

#include "model/layer_pattern.h"

namespace moeplan::model {
namespace {

constexpr std::int64_t kMaxDim = std::int64_t{1} << 14;
constexpr std::int64_t kMaxWindow = std::int64_t{1} << 30;

constexpr std::array<std::string_view, 5> kMlaKeys = {"q_lora_rank", "kv_lora_rank", "qk_head_dim",
                                                      "qk_pos_emb_head_dim", "v_head_dim"};
constexpr std::array<std::string_view, 6> kGqaKeys = {"num_query_groups", "kv_channels", "add_qkv_bias",
                                                      "qk_layernorm",     "sinks",       "qk_layernorm_all_heads"};

void declare_attention_aliases(config::Reader& reader) {
  reader.alias("num_attention_heads", "heads");
  reader.alias("num_query_groups", "kv_heads");
  reader.alias("kv_channels", "head_dim");
  reader.alias("add_qkv_bias", "qkv_bias");
  reader.alias("qk_layernorm", "qk_norm");
  reader.alias("qk_layernorm_all_heads", "qk_norm_all_heads");
  reader.alias("qk_head_dim", "qk_nope_dim");
  reader.alias("qk_pos_emb_head_dim", "qk_rope_dim");
  reader.alias("window_attn_skip_freq", "window_pattern");
}

// A value that only the other kind of attention has would be ignored in silence: refuse it, and say why.
template <std::size_t N>
void refuse_keys(config::Reader& reader, const std::array<std::string_view, N>& keys, std::string_view owner) {
  for (const std::string_view key : keys) {
    if (reader.has(key)) reader.fault(key, fmt::format("'{}' is a key of 'kind: {}' only", key, owner));
  }
}

// Rotary embedding turns pairs of elements.
void check_rotary(config::Reader& reader, std::string_view key, std::int64_t dim) {
  // A mapping that is missing is one fault, and reads as ones.
  if (reader.has(key) && dim % 2 != 0)
    reader.fault(key, fmt::format("expected an even number (rotary pairs), got '{}'", dim));
}

void read_gqa(config::Reader& reader, Attention& attention, bool linear_bias) {
  const std::size_t before = reader.faults().size();
  attention.heads = reader.integer("num_attention_heads", {1, kMaxDim});
  attention.kv_heads = reader.integer_or("num_query_groups", attention.heads, {1, kMaxDim});
  if (reader.faults().size() == before && attention.heads % attention.kv_heads != 0) {
    reader.fault("num_query_groups", fmt::format("expected a divisor of num_attention_heads ({}), got '{}'",
                                                 attention.heads, attention.kv_heads));
  }
  const std::size_t before_dim = reader.faults().size();
  attention.head_dim = reader.integer("kv_channels", {1, kMaxDim});
  if (reader.faults().size() == before_dim) check_rotary(reader, "kv_channels", attention.head_dim);
  attention.qkv_bias = reader.flag_or("add_qkv_bias", linear_bias);
  attention.qk_norm = reader.flag_or("qk_layernorm", false);
  attention.qk_norm_all_heads = reader.flag_or("qk_layernorm_all_heads", false);
  if (attention.qk_norm_all_heads && !attention.qk_norm) {
    reader.fault("qk_layernorm_all_heads", "'qk_layernorm_all_heads' needs 'qk_layernorm: true'");
  }
  attention.sinks = reader.flag_or("sinks", false);
  refuse_keys(reader, kMlaKeys, "mla");
}

void read_mla(config::Reader& reader, Attention& attention) {
  attention.heads = reader.integer("num_attention_heads", {1, kMaxDim});
  attention.kv_heads = attention.heads;
  attention.q_lora_rank = reader.integer_or("q_lora_rank", 0, {1, kMaxDim});
  attention.kv_lora_rank = reader.integer("kv_lora_rank", {1, kMaxDim});
  attention.qk_nope_dim = reader.integer("qk_head_dim", {1, kMaxDim});
  const std::size_t before = reader.faults().size();
  attention.qk_rope_dim = reader.integer("qk_pos_emb_head_dim", {1, kMaxDim});
  if (reader.faults().size() == before) check_rotary(reader, "qk_pos_emb_head_dim", attention.qk_rope_dim);
  attention.v_head_dim = reader.integer("v_head_dim", {1, kMaxDim});
  refuse_keys(reader, kGqaKeys, "gqa");
}

// 1 for each layer that has the window. Megatron: an integer N leaves every N-th layer (counted from 1) without one;
// a list or pattern has 1 where the window is; without the key all layers have it. Empty with a fault otherwise.
std::vector<int> read_window_layers(config::Reader& reader, std::size_t layers) {
  const char* const key = "window_attn_skip_freq";
  const std::optional<config::Node> node = reader.node_if(key);
  if (!node) return std::vector<int>(layers, 1);
  const std::size_t before = reader.faults().size();
  std::vector<int> values;
  if (node->kind() == config::Node::Kind::list) {
    for (const std::int64_t value : reader.integers(key, {0, 1})) values.push_back(static_cast<int>(value));
  } else if (node->kind() == config::Node::Kind::scalar && node->scalar().find_first_of("[(") != std::string::npos) {
    FrequencyPattern pattern = parse_frequency_pattern(node->scalar(), "0 (all keys) or 1 (window)");
    if (!pattern.error.empty()) reader.fault(key, std::move(pattern.error), "a pattern reads like '([1,0]*12)'");
    values = std::move(pattern.values);
  } else {
    const auto step = static_cast<std::size_t>(reader.integer(key, {1, kMaxLayers}));
    for (std::size_t i = 1; i <= layers; ++i) values.push_back(i % step != 0 ? 1 : 0);
  }
  if (reader.faults().size() != before) return {};
  // No layers: they are a fault already.
  if (values.size() != layers && layers > 0) {
    reader.fault(key, fmt::format("expected {} layers, got {}", layers, values.size()));
    return {};
  }
  return values;
}

void read_windows(config::Reader& reader, Architecture& arch) {
  arch.windows.assign(arch.layers.size(), 0);
  if (!reader.has("window_size")) {
    if (reader.has("window_attn_skip_freq")) {
      reader.fault("window_attn_skip_freq", "'window_attn_skip_freq' needs 'window_size'");
    }
    return;
  }
  const std::int64_t window = reader.integer("window_size", {1, kMaxWindow});
  const std::vector<int> layers = read_window_layers(reader, arch.layers.size());
  for (std::size_t i = 0; i < layers.size() && i < arch.windows.size(); ++i) {
    if (layers[i] == 1) arch.windows[i] = window;
  }
}

}  // namespace

Attention read_attention(config::Reader reader, Architecture& arch) {
  const std::array<std::string, 2> kinds = {"gqa", "mla"};
  declare_attention_aliases(reader);
  Attention attention;
  const std::size_t before = reader.faults().size();
  attention.kind = reader.choice("kind", kinds) == 1 ? AttentionKind::mla : AttentionKind::gqa;
  if (reader.faults().size() != before) {
    // Which keys belong here is not known: look only for those that belong to neither kind.
    reader.has("num_attention_heads");
    for (const std::string_view key : kMlaKeys) reader.has(key);
    for (const std::string_view key : kGqaKeys) reader.has(key);
  } else if (attention.kind == AttentionKind::mla) {
    read_mla(reader, attention);
  } else {
    read_gqa(reader, attention, arch.linear_bias);
  }
  attention.output_bias = reader.flag_or("output_bias", arch.linear_bias);
  read_windows(reader, arch);
  reader.finish();
  return attention;
}

}  // namespace moeplan::model
