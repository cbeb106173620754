#include <cstddef>

#include "model/hf_fields.h"

// Families of config.json without experts. What a field means is what the released model code makes of it.
namespace moeplan::model {
namespace {

void read_dense(HfFields& fields, Architecture& arch) {
  read_heads(fields, arch);
  arch.dense_ffn = fields.integer("intermediate_size");
  arch.layers.assign(arch.layers.size(), LayerKind::dense);
}

// One switch for q, k, v and the output projection.
void read_attention_bias(HfFields& fields, Architecture& arch) {
  arch.attention.qkv_bias = fields.flag_or("attention_bias", false);
  arch.attention.output_bias = arch.attention.qkv_bias;
}

}  // namespace

void read_llama(HfFields& fields, Architecture& arch) {
  read_dense(fields, arch);
  read_attention_bias(fields, arch);
  const bool mlp_bias = fields.flag_or("mlp_bias", false);
  if (mlp_bias != arch.attention.qkv_bias) {
    if (mlp_bias) fields.fault("mlp_bias", "biases of the MLP without those of attention cannot be expressed");
  } else if (mlp_bias) {
    arch.linear_bias = true;
  }
  read_windows(fields, arch, {});
}

void read_mistral(HfFields& fields, Architecture& arch) {
  read_dense(fields, arch);
  read_windows(fields, arch, std::vector<bool>(arch.layers.size(), fields.given("sliding_window")));
}

void read_qwen2(HfFields& fields, Architecture& arch) {
  read_dense(fields, arch);
  arch.attention.qkv_bias = true;
  read_qwen_windows(fields, arch);
}

void read_qwen3(HfFields& fields, Architecture& arch) {
  read_dense(fields, arch);
  if (!fields.given("head_dim")) arch.attention.head_dim = 128;  // the default of this family
  read_attention_bias(fields, arch);
  arch.attention.qk_norm = true;
  read_qwen_windows(fields, arch);
}

}  // namespace moeplan::model
