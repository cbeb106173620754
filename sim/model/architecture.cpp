#include "model/architecture.h"

#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "config/reader.h"
#include "model/layer_pattern.h"
#include "model/parameters.h"
#include "model/read_attention.h"

namespace moeplan::model {
namespace {

// Far above any model, and small enough that the parameters of one layer stay below 2^60.
constexpr std::int64_t kMaxHidden = std::int64_t{1} << 18;
constexpr std::int64_t kMaxVocab = std::int64_t{1} << 24;
constexpr std::int64_t kMaxFfn = std::int64_t{1} << 20;
constexpr double kMaxClamp = 1e6;
constexpr std::int64_t kMaxPositions = std::int64_t{1} << 26;
constexpr std::int64_t kMaxMtpLayers = 16;
constexpr std::int64_t kMaxExperts = std::int64_t{1} << 16;
constexpr double kMaxParameters = 1e15;  // sums over layers and their bytes stay exact in 64 bits

// Group-limited routing: both numbers, a whole number of experts a group, and room for top_k experts.
void read_groups(config::Reader& reader, Moe& moe, bool experts_are_good) {
  const std::size_t before = reader.faults().size();
  const bool has_groups = reader.has("moe_router_num_groups");
  moe.groups = reader.integer_or("moe_router_num_groups", 0, {1, kMaxExperts});
  if (!has_groups) {
    if (reader.has("moe_router_group_topk")) {
      reader.fault("moe_router_group_topk", "'moe_router_group_topk' needs 'moe_router_num_groups'");
    }
    return;
  }
  moe.groups_limit = reader.integer("moe_router_group_topk", {1, kMaxExperts});
  if (!experts_are_good || reader.faults().size() != before) return;
  if (moe.experts % moe.groups != 0) {
    reader.fault("moe_router_num_groups",
                 fmt::format("expected a divisor of num_experts ({}), got '{}'", moe.experts, moe.groups));
  } else if (moe.groups_limit > moe.groups) {
    reader.fault("moe_router_group_topk",
                 fmt::format("expected at most moe_router_num_groups ({}), got '{}'", moe.groups, moe.groups_limit));
  } else if (moe.groups_limit * (moe.experts / moe.groups) < moe.top_k) {
    reader.fault("moe_router_group_topk", fmt::format("{} groups of {} experts are fewer than moe_router_topk ({})",
                                                      moe.groups_limit, moe.experts / moe.groups, moe.top_k));
  }
}

Moe read_moe(config::Reader reader, Architecture& arch) {
  reader.alias("num_experts", "experts");
  reader.alias("moe_router_topk", "top_k");
  reader.alias("moe_ffn_hidden_size", "expert_ffn");
  reader.alias("moe_shared_expert_intermediate_size", "shared_ffn");
  reader.alias("moe_shared_expert_gate", "shared_gate");
  reader.alias("moe_router_enable_expert_bias", "correction_bias");
  reader.alias("moe_router_num_groups", "groups");
  reader.alias("moe_router_group_topk", "groups_limit");
  Moe moe;
  const std::size_t before = reader.faults().size();
  moe.experts = reader.integer("num_experts", {1, kMaxExperts});
  moe.top_k = reader.integer("moe_router_topk", {1, kMaxExperts});
  if (reader.faults().size() == before && moe.top_k > moe.experts) {
    reader.fault("moe_router_topk", fmt::format("expected at most num_experts ({}), got '{}'", moe.experts, moe.top_k));
  }
  read_groups(reader, moe, reader.faults().size() == before);
  moe.ffn = reader.integer("moe_ffn_hidden_size", {1, kMaxFfn});
  const std::size_t before_shared = reader.faults().size();
  moe.shared_ffn = reader.integer_or("moe_shared_expert_intermediate_size", 0, {0, kMaxFfn});
  moe.shared_gate = reader.flag_or("moe_shared_expert_gate", false);
  if (reader.faults().size() == before_shared && moe.shared_gate && moe.shared_ffn == 0) {
    reader.fault("moe_shared_expert_gate",
                 "a gate of the shared expert needs moe_shared_expert_intermediate_size of 1 or more");
  }
  moe.correction_bias = reader.flag_or("moe_router_enable_expert_bias", false);
  moe.expert_bias = reader.flag_or("expert_bias", arch.linear_bias);
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
  const double total = static_cast<double>(arch.mtp_layers) * static_cast<double>(mtp_block_parameters(arch)) +
                       moe_layers * static_cast<double>(layer_parameters(arch, LayerKind::moe).total()) +
                       dense_layers * static_cast<double>(layer_parameters(arch, LayerKind::dense).total());
  if (total > kMaxParameters) {
    root.fault("hidden_size", fmt::format("expected a model of at most {:.0e} parameters, its layers have {:.3g}",
                                          kMaxParameters, total));
  }
}

void declare_aliases(config::Reader& reader) {
  reader.alias("hidden_size", "hidden");
  reader.alias("vocab_size", "vocab");
  reader.alias("make_vocab_size_divisible_by", "vocab_divisor");
  reader.alias("ffn_hidden_size", "dense_ffn");
  reader.alias("tie_word_embeddings", "tied_embeddings");
  reader.alias("mtp_num_layers", "mtp_layers");
  reader.alias("add_bias_linear", "linear_bias");
}

// What Megatron's GPT-style defaults switch on and today's models leave off.
void read_style(config::Reader& reader, Architecture& arch) {
  const std::array<std::string, 2> mlps = {"swiglu", "gelu"};
  const std::array<std::string, 2> norms = {"RMSNorm", "LayerNorm"};
  arch.mlp = static_cast<MlpKind>(reader.choice_or("mlp", mlps, 0));
  arch.layer_norm_bias = reader.choice_or("normalization", norms, 0) == 1;
  arch.linear_bias = reader.flag_or("add_bias_linear", false);
  arch.activation_clamp = reader.real_or("activation_func_clamp_value", 0.0, {0.0, kMaxClamp});
  arch.learned_positions = reader.integer_or("learned_positions", 0, {0, kMaxPositions});
}

}  // namespace

bool Architecture::has_windows() const {
  return std::any_of(windows.begin(), windows.end(), [](std::int64_t window) { return window > 0; });
}

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
  declare_aliases(reader);
  const std::size_t before = faults.size();
  Architecture arch;
  arch.id = reader.text_or("name", id);
  arch.title = reader.text_or("title", arch.id);
  arch.source = reader.text("source");
  arch.hidden = reader.integer("hidden_size", {1, kMaxHidden});
  arch.vocab = reader.integer("vocab_size", {1, kMaxVocab});
  arch.vocab_divisor = reader.integer_or("make_vocab_size_divisible_by", 128, {1, kMaxVocab});
  arch.tied_embeddings = reader.flag_or("tie_word_embeddings", false);
  read_style(reader, arch);
  arch.dense_ffn = reader.integer_or("ffn_hidden_size", 0, {1, kMaxFfn});
  arch.where_hidden = reader.where("hidden_size");
  arch.layers = read_layers(reader);
  arch.where_layers = reader.where(reader.has("layers") ? "layers" : "num_layers");
  // The layers decide which mappings must be there, so they are read first, and the rule runs only on good layers.
  if (!arch.layers.empty()) check_layer_keys(reader, arch, reader.has("ffn_hidden_size"), reader.has("moe"));
  arch.mtp_layers = reader.integer_or("mtp_num_layers", 0, {0, kMaxMtpLayers});
  arch.attention = read_attention(reader.map("attention"), arch);
  if (std::optional<config::Reader> moe = reader.map_if("moe")) arch.moe = read_moe(*moe, arch);
  if (std::optional<config::Reader> published = reader.map_if("published")) arch.published = read_published(*published);
  if (faults.size() == before) check_size(reader, arch);
  reader.finish();
  return arch;
}

}  // namespace moeplan::model
