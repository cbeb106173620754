#include "base/check.h"
#include "model/parameters.h"

namespace moeplan::model {
namespace {

// P: elements of the attention's matrices, each of which multiplies every token once. Norms and biases are not counted.
double attention_matrix_elements(const Architecture& arch) {
  const Attention& a = arch.attention;
  const double hidden = static_cast<double>(arch.hidden);
  const double heads = static_cast<double>(a.heads);
  if (a.kind == AttentionKind::gqa) {
    const double head_dim = static_cast<double>(a.head_dim);
    return 2.0 * hidden * heads * head_dim + 2.0 * hidden * static_cast<double>(a.kv_heads) * head_dim;
  }
  const double q_lora = static_cast<double>(a.q_lora_rank);
  const double kv_lora = static_cast<double>(a.kv_lora_rank);
  const double qk_dim = static_cast<double>(a.qk_dim());
  const double v_dim = static_cast<double>(a.v_head_dim);
  const double query = a.q_lora_rank > 0 ? hidden * q_lora + q_lora * heads * qk_dim : hidden * heads * qk_dim;
  const double key_value = hidden * (kv_lora + static_cast<double>(a.qk_rope_dim)) +
                           kv_lora * heads * (static_cast<double>(a.qk_nope_dim) + v_dim);
  return query + key_value + heads * v_dim * hidden;
}

}  // namespace

double training_flops_per_token(const Architecture& arch, std::int64_t seq_length) {
  MOEPLAN_CHECK(seq_length >= 1, "a sequence has at least one token");
  const double hidden = static_cast<double>(arch.hidden);
  const double layers = static_cast<double>(arch.layer_count());
  const double moe_layers = static_cast<double>(arch.moe_layer_count());
  const double core = static_cast<double>(seq_length) / 2.0 * static_cast<double>(arch.attention.heads) *
                      static_cast<double>(arch.attention.qk_dim() + arch.attention.v_dim());
  const double dense = 3.0 * hidden * static_cast<double>(arch.dense_ffn);
  const double moe = 3.0 * hidden * static_cast<double>(arch.moe.top_k * arch.moe.ffn + arch.moe.shared_ffn);
  // 6 = a multiply and an add, once forward and twice backward.
  return 6.0 * (layers * (attention_matrix_elements(arch) + core) + (layers - moe_layers) * dense + moe_layers * moe +
                hidden * static_cast<double>(arch.vocab));
}

}  // namespace moeplan::model
