#include <fmt/core.h>

#include <algorithm>
#include <cstddef>

#include "model/hf_fields.h"

// Families of config.json with experts, latent attention aside. What a field means is what the released model code
// makes of it.
namespace moeplan::model {
namespace {

void all_moe(Architecture& arch) { arch.layers.assign(arch.layers.size(), LayerKind::moe); }

bool has_dense_layers(const Architecture& arch) { return arch.moe_layer_count() < arch.layer_count(); }

// Qwen: a layer has experts unless `mlp_only_layers` names it or `decoder_sparse_step` does not divide its number,
// counted from 1.
void read_qwen_moe(HfFields& fields, Architecture& arch) {
  read_heads(fields, arch);
  arch.moe.experts = fields.integer("num_experts");
  arch.moe.top_k = fields.integer("num_experts_per_tok");
  arch.moe.ffn = fields.integer("moe_intermediate_size");
  const std::int64_t step = fields.step("decoder_sparse_step");
  const std::vector<std::int64_t> dense = fields.integers("mlp_only_layers");
  for (const std::int64_t layer : dense) {
    if (layer < arch.layer_count()) continue;
    fields.fault("mlp_only_layers", fmt::format("expected layers from 0 to {} (num_hidden_layers {}), got '{}'",
                                                arch.layer_count() - 1, arch.layer_count(), layer));
  }
  for (std::size_t i = 0; i < arch.layers.size(); ++i) {
    const auto layer = static_cast<std::int64_t>(i);
    const bool named = std::find(dense.begin(), dense.end(), layer) != dense.end();
    arch.layers[i] = !named && (layer + 1) % step == 0 ? LayerKind::moe : LayerKind::dense;
  }
  fields.ignore("intermediate_size");  // stands in the file even where no layer uses it
  if (has_dense_layers(arch)) arch.dense_ffn = fields.integer("intermediate_size");
  read_qwen_windows(fields, arch);
}

}  // namespace

void read_qwen2_moe(HfFields& fields, Architecture& arch) {
  read_qwen_moe(fields, arch);
  arch.attention.qkv_bias = fields.flag_or("qkv_bias", true);
  arch.moe.shared_ffn = fields.integer("shared_expert_intermediate_size");
  arch.moe.shared_gate = arch.moe.shared_ffn > 0;
}

void read_qwen3_moe(HfFields& fields, Architecture& arch) {
  read_qwen_moe(fields, arch);
  arch.attention.qkv_bias = fields.flag_or("attention_bias", false);
  arch.attention.output_bias = arch.attention.qkv_bias;
  arch.attention.qk_norm = true;
}

void read_mixtral(HfFields& fields, Architecture& arch) {
  read_heads(fields, arch);
  all_moe(arch);
  arch.moe.experts = fields.integer("num_local_experts");
  arch.moe.top_k = fields.integer("num_experts_per_tok");
  arch.moe.ffn = fields.integer("intermediate_size");
  read_windows(fields, arch, std::vector<bool>(arch.layers.size(), fields.given("sliding_window")));
}

void read_gpt_oss(HfFields& fields, Architecture& arch) {
  read_heads(fields, arch);
  if (!fields.given("head_dim")) arch.attention.head_dim = 64;  // the default of this family
  all_moe(arch);
  arch.moe.experts = fields.first_integer("num_local_experts", "num_experts");
  arch.moe.top_k = fields.first_integer("num_experts_per_tok", "experts_per_token");
  fields.ignore("experts_per_token");
  arch.moe.ffn = fields.integer("intermediate_size");
  arch.moe.expert_bias = true;
  arch.linear_bias = true;  // router and experts have biases whatever attention_bias says
  arch.attention.qkv_bias = fields.flag_or("attention_bias", true);
  arch.attention.output_bias = arch.attention.qkv_bias;
  arch.attention.sinks = true;
  arch.activation_clamp = fields.real_or("swiglu_limit", 7.0);  // the family's own limit where none is given
  std::vector<bool> alternate(arch.layers.size());
  for (std::size_t i = 0; i < alternate.size(); ++i) alternate[i] = i % 2 == 0;
  read_windows(fields, arch, alternate);
}

void read_olmoe(HfFields& fields, Architecture& arch) {
  read_heads(fields, arch);
  all_moe(arch);
  arch.moe.experts = fields.integer("num_experts");
  arch.moe.top_k = fields.integer("num_experts_per_tok");
  arch.moe.ffn = fields.integer("intermediate_size");
  arch.attention.qkv_bias = fields.flag_or("attention_bias", false);
  arch.attention.output_bias = arch.attention.qkv_bias;
  arch.attention.qk_norm = true;
  arch.attention.qk_norm_all_heads = true;
  read_windows(fields, arch, {});
}

void read_glm4_moe(HfFields& fields, Architecture& arch) {
  read_heads(fields, arch);
  arch.attention.qkv_bias = fields.flag_or("attention_bias", false);  // the output projection has none
  arch.attention.qk_norm = fields.flag_or("use_qk_norm", false);
  arch.moe.experts = fields.integer("n_routed_experts");
  arch.moe.top_k = fields.integer("num_experts_per_tok");
  arch.moe.ffn = fields.integer("moe_intermediate_size");
  arch.moe.shared_ffn = fields.integer_or("n_shared_experts", 0) * arch.moe.ffn;
  arch.moe.correction_bias = true;
  read_dense_first(fields, arch, true);
  fields.ignore("intermediate_size");
  if (has_dense_layers(arch)) arch.dense_ffn = fields.integer("intermediate_size");
  const std::int64_t groups = fields.integer_or("n_group", 1), limit = fields.integer_or("topk_group", 1);
  if (groups > 1) {
    arch.moe.groups = groups;
    arch.moe.groups_limit = limit;
  }
  arch.mtp_layers = fields.integer_or("num_nextn_predict_layers", 0);
  read_windows(fields, arch, {});
}

}  // namespace moeplan::model
