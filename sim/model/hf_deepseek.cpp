#include "model/hf_fields.h"

// DeepSeek-V2, DeepSeek-V3 and the models that use their code (Moonlight, Kimi K2).
namespace moeplan::model {
namespace {

void read_latent_attention(HfFields& fields, Architecture& arch) {
  Attention& a = arch.attention;
  a.kind = AttentionKind::mla;
  a.heads = fields.integer("num_attention_heads");
  a.kv_heads = a.heads;
  fields.ignore("num_key_value_heads");  // equal to the heads; the up-projection makes all of them
  fields.ignore("head_dim");             // the rotary part again
  fields.ignore("qk_head_dim");          // the sum of the two parts
  a.q_lora_rank = fields.integer_or("q_lora_rank", 0);
  a.kv_lora_rank = fields.integer("kv_lora_rank");
  a.qk_nope_dim = fields.integer("qk_nope_head_dim");
  a.qk_rope_dim = fields.integer("qk_rope_head_dim");
  a.v_head_dim = fields.integer("v_head_dim");
  if (fields.flag_or("attention_bias", false)) {
    fields.fault("attention_bias", "biases of latent attention are not supported in this version");
  }
}

void read_experts(HfFields& fields, Architecture& arch) {
  Moe& moe = arch.moe;
  moe.experts = fields.integer("n_routed_experts");
  moe.top_k = fields.integer("num_experts_per_tok");
  moe.ffn = fields.integer("moe_intermediate_size");
  moe.shared_ffn = fields.integer_or("n_shared_experts", 0) * moe.ffn;
  const std::string v3_default = fields.text_or("model_type", "") == "deepseek_v2" ? "greedy" : "noaux_tc";
  const std::string method = fields.text_or("topk_method", v3_default);
  moe.correction_bias = method == "noaux_tc";
  const std::int64_t groups = fields.integer_or("n_group", 1), limit = fields.integer_or("topk_group", 1);
  if (method != "greedy" && groups > 1) {
    moe.groups = groups;
    moe.groups_limit = limit;
  }
}

}  // namespace

void read_deepseek(HfFields& fields, Architecture& arch) {
  read_latent_attention(fields, arch);
  const bool has_experts = fields.given("n_routed_experts");
  if (has_experts) read_experts(fields, arch);
  read_dense_first(fields, arch, has_experts);
  fields.ignore("intermediate_size");
  if (arch.moe_layer_count() < arch.layer_count()) arch.dense_ffn = fields.integer("intermediate_size");
  arch.mtp_layers = fields.integer_or("num_nextn_predict_layers", 0);
  read_windows(fields, arch, {});
}

}  // namespace moeplan::model
