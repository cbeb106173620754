#include "model/architecture.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

#include "config/reader.h"
#include "model/layer_pattern.h"
#include "model/parameters.h"

namespace moeplan::model {
namespace {

// Far above any model, and small enough that the parameters of one layer stay below 2^60.
constexpr std::int64_t kMaxHidden = std::int64_t{1} << 18;
constexpr std::int64_t kMaxVocab = std::int64_t{1} << 24;
constexpr std::int64_t kMaxFfn = std::int64_t{1} << 20;
constexpr std::int64_t kMaxDim = std::int64_t{1} << 14;
constexpr std::int64_t kMaxExperts = std::int64_t{1} << 16;
constexpr double kMaxParameters = 1e15;  // sums over layers and their bytes stay exact in 64 bits

constexpr std::array<std::string_view, 5> kMlaKeys = {"q_lora_rank", "kv_lora_rank", "qk_head_dim",
                                                      "qk_pos_emb_head_dim", "v_head_dim"};
constexpr std::array<std::string_view, 4> kGqaKeys = {"num_query_groups", "kv_channels", "add_qkv_bias",
                                                      "qk_layernorm"};

void declare_attention_aliases(config::Reader& reader) {
  reader.alias("num_attention_heads", "heads");
  reader.alias("num_query_groups", "kv_heads");
  reader.alias("kv_channels", "head_dim");
  reader.alias("add_qkv_bias", "qkv_bias");
  reader.alias("qk_layernorm", "qk_norm");
  reader.alias("qk_head_dim", "qk_nope_dim");
  reader.alias("qk_pos_emb_head_dim", "qk_rope_dim");
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
  if (dim % 2 != 0) reader.fault(key, fmt::format("expected an even number (rotary pairs), got '{}'", dim));
}

void read_gqa(config::Reader& reader, Attention& attention) {
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
  attention.qkv_bias = reader.flag_or("add_qkv_bias", false);
  attention.qk_norm = reader.flag_or("qk_layernorm", false);
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

Attention read_attention(config::Reader reader) {
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
    read_gqa(reader, attention);
  }
  reader.finish();
  return attention;
}

Moe read_moe(config::Reader reader, Architecture& arch) {
  reader.alias("num_experts", "experts");
  reader.alias("moe_router_topk", "top_k");
  reader.alias("moe_ffn_hidden_size", "expert_ffn");
  reader.alias("moe_shared_expert_intermediate_size", "shared_ffn");
  reader.alias("moe_shared_expert_gate", "shared_gate");
  reader.alias("moe_router_enable_expert_bias", "correction_bias");
  Moe moe;
  const std::size_t before = reader.faults().size();
  moe.experts = reader.integer("num_experts", {1, kMaxExperts});
  moe.top_k = reader.integer("moe_router_topk", {1, kMaxExperts});
  if (reader.faults().size() == before && moe.top_k > moe.experts) {
    reader.fault("moe_router_topk", fmt::format("expected at most num_experts ({}), got '{}'", moe.experts, moe.top_k));
  }
  moe.ffn = reader.integer("moe_ffn_hidden_size", {1, kMaxFfn});
  const std::size_t before_shared = reader.faults().size();
  moe.shared_ffn = reader.integer_or("moe_shared_expert_intermediate_size", 0, {0, kMaxFfn});
  moe.shared_gate = reader.flag_or("moe_shared_expert_gate", false);
  if (reader.faults().size() == before_shared && moe.shared_gate && moe.shared_ffn == 0) {
    reader.fault("moe_shared_expert_gate",
                 "a gate of the shared expert needs moe_shared_expert_intermediate_size of 1 or more");
  }
  moe.correction_bias = reader.flag_or("moe_router_enable_expert_bias", false);
  arch.where_experts = reader.where("num_experts");
  arch.where_top_k = reader.where("moe_router_topk");
  reader.finish();
  return moe;
}

Published read_published(config::Reader reader) {
  const std::array<std::string, 3> conventions = {"everything", "without_embedding", "without_embedding_and_head"};
  const config::RealRange range{0.0, kMaxParameters, true};
  Published published;
  published.total_parameters = reader.real_or("total_parameters", 0.0, range);
  published.active_parameters = reader.real_or("active_parameters", 0.0, range);
  if (reader.has("active_parameters")) {
    published.active_convention = static_cast<ActiveConvention>(reader.choice("active_convention", conventions));
  } else if (reader.has("active_convention")) {
    reader.fault("active_convention", "a convention without active_parameters says nothing");
  }
  published.source = reader.text("source");
  reader.finish();
  return published;
}

// ffn_hidden_size belongs to dense layers and `moe` to MoE layers: each must be there exactly when such layers are.
void check_layer_keys(config::Reader& root, const Architecture& arch, bool has_dense_ffn, bool has_moe) {
  const auto first_of = [&](LayerKind kind) {
    return std::find(arch.layers.begin(), arch.layers.end(), kind) - arch.layers.begin();
  };
  const std::int64_t moe_layers = arch.moe_layer_count();
  if (moe_layers > 0 && !has_moe) {
    root.fault("moe",
               fmt::format("missing key 'moe': layer {} (counted from 0) is an MoE layer", first_of(LayerKind::moe)));
  } else if (moe_layers == 0 && has_moe) {
    root.fault("moe", "'moe' is given, but no layer is an MoE layer");
  }
  if (moe_layers < arch.layer_count() && !has_dense_ffn) {
    root.fault("ffn_hidden_size",
               fmt::format("missing key 'ffn_hidden_size': layer {} (counted from 0) is a dense layer",
                           first_of(LayerKind::dense)));
  } else if (moe_layers == arch.layer_count() && has_dense_ffn) {
    root.fault("ffn_hidden_size", "'ffn_hidden_size' is given, but no layer is a dense layer",
               "the width of one expert is moe.moe_ffn_hidden_size");
  }
}

// In doubles, because the sum is what must be shown to fit before anything adds it up in integers.
void check_size(config::Reader& root, const Architecture& arch) {
  const double moe_layers = static_cast<double>(arch.moe_layer_count());
  const double dense_layers = static_cast<double>(arch.layer_count()) - moe_layers;
  const double total = moe_layers * static_cast<double>(layer_parameters(arch, LayerKind::moe).total()) +
                       dense_layers * static_cast<double>(layer_parameters(arch, LayerKind::dense).total());
  if (total > kMaxParameters) {
    root.fault("hidden_size", fmt::format("expected a model of at most {:.0e} parameters, its layers have {:.3g}",
                                          kMaxParameters, total));
  }
}

}  // namespace

std::int64_t Architecture::moe_layer_count() const { return std::count(layers.begin(), layers.end(), LayerKind::moe); }

std::vector<int> Architecture::moe_layer_ids() const {
  std::vector<int> ids;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    if (layers[i] == LayerKind::moe) ids.push_back(static_cast<int>(i));
  }
  return ids;
}

Architecture read_architecture(const config::Node& root, const std::string& id, base::Faults& faults) {
  config::Reader reader(root, faults);
  reader.alias("hidden_size", "hidden");
  reader.alias("vocab_size", "vocab");
  reader.alias("ffn_hidden_size", "dense_ffn");
  reader.alias("tie_word_embeddings", "tied_embeddings");
  const std::size_t before = faults.size();
  Architecture arch;
  arch.id = reader.text_or("name", id);
  arch.title = reader.text_or("title", arch.id);
  arch.source = reader.text("source");
  arch.hidden = reader.integer("hidden_size", {1, kMaxHidden});
  arch.vocab = reader.integer("vocab_size", {1, kMaxVocab});
  arch.tied_embeddings = reader.flag_or("tie_word_embeddings", false);
  arch.dense_ffn = reader.integer_or("ffn_hidden_size", 0, {1, kMaxFfn});
  arch.where_hidden = reader.where("hidden_size");
  arch.layers = read_layers(reader);
  arch.where_layers = reader.where(reader.has("layers") ? "layers" : "num_layers");
  // The layers decide which mappings must be there, so they are read first, and the rule runs only on good layers.
  if (!arch.layers.empty()) check_layer_keys(reader, arch, reader.has("ffn_hidden_size"), reader.has("moe"));
  arch.attention = read_attention(reader.map("attention"));
  if (std::optional<config::Reader> moe = reader.map_if("moe")) arch.moe = read_moe(*moe, arch);
  if (std::optional<config::Reader> published = reader.map_if("published")) arch.published = read_published(*published);
  if (faults.size() == before) check_size(reader, arch);
  reader.finish();
  return arch;
}

}  // namespace moeplan::model
