#include <algorithm>
#include <cstddef>

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
  MOEPLAN_CHECK(!arch.layers.empty(), "a model has at least one layer");
  const double hidden = static_cast<double>(arch.hidden);
  const double mtp = static_cast<double>(arch.mtp_layers);
  const double matrices = attention_matrix_elements(arch);
  const double head_dims =
      static_cast<double>(arch.attention.heads * (arch.attention.qk_dim() + arch.attention.v_dim()));
  const double projections = arch.mlp == MlpKind::swiglu ? 3.0 : 2.0;
  const double dense = projections * hidden * static_cast<double>(arch.dense_ffn);
  const double moe = projections * hidden * static_cast<double>(arch.moe.top_k * arch.moe.ffn + arch.moe.shared_ffn);
  const auto of_layer = [&](std::size_t layer) {
    const std::int64_t window = arch.window(layer);
    const std::int64_t keys = window > 0 ? std::min(window, seq_length) : seq_length;
    return matrices + static_cast<double>(keys) / 2.0 * head_dims +
           (arch.layers[layer] == LayerKind::moe ? moe : dense);
  };
  double sum = (1.0 + mtp) * hidden * static_cast<double>(arch.vocab);
  for (std::size_t layer = 0; layer < arch.layers.size(); ++layer) sum += of_layer(layer);
  sum += mtp * (of_layer(arch.layers.size() - 1) + 2.0 * hidden * hidden);
  return 6.0 * sum;  // a multiply and an add, once forward and twice backward
}

}  // namespace moeplan::model
