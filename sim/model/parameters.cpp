#include "model/parameters.h"

#include "base/checked.h"

namespace moeplan::model {
namespace {

// Two projections with what stands between them: swiglu has gate and up (h x f each) and down (f x h), gelu up and
// down. The bias of the first projection is divided with its columns, that of the second is whole on each rank.
struct MlpWeights {
  std::int64_t sharded = 0, replicated = 0;
  std::int64_t total() const { return sharded + replicated; }
};

MlpWeights mlp_weights(const Architecture& arch, std::int64_t ffn, bool bias) {
  if (ffn == 0) return {};
  const std::int64_t columns = arch.mlp == MlpKind::swiglu ? 2 * ffn : ffn;
  return {arch.hidden * (columns + ffn) + (bias ? columns : 0), bias ? arch.hidden : 0};
}

MlpWeights expert_weights(const Architecture& arch) {
  return mlp_weights(arch, arch.moe.ffn, arch.linear_bias || arch.moe.expert_bias);
}

std::int64_t norm(const Architecture& arch) { return arch.layer_norm_bias ? 2 * arch.hidden : arch.hidden; }

constexpr std::int64_t kMtpNorms = 3;  // of the embedding, of the hidden state, and the last one before the head

// Weights of multi-head latent attention, by the names of the DeepSeek papers.
struct MlaWeights {
  std::int64_t down_q = 0;        // W_DQ, h x q_lora
  std::int64_t up_q_nope = 0;     // W_UQ, (q_lora or h) x heads x nope
  std::int64_t up_q_rope = 0;     // W_QR, (q_lora or h) x heads x rope
  std::int64_t down_kv = 0;       // W_DKV and W_KR, h x (kv_lora + rope)
  std::int64_t up_kv = 0;         // W_UK and W_UV, kv_lora x heads x (nope + v)
  std::int64_t out = 0;           // W_O, heads x v x h
  std::int64_t latent_norms = 0;  // q_norm and kv_norm
};

MlaWeights mla_weights(const Architecture& arch) {
  const Attention& a = arch.attention;
  const std::int64_t q_input = a.q_lora_rank > 0 ? a.q_lora_rank : arch.hidden;
  MlaWeights w;
  w.down_q = arch.hidden * a.q_lora_rank;
  w.up_q_nope = q_input * a.heads * a.qk_nope_dim;
  w.up_q_rope = q_input * a.heads * a.qk_rope_dim;
  w.down_kv = arch.hidden * (a.kv_lora_rank + a.qk_rope_dim);
  w.up_kv = a.kv_lora_rank * a.heads * (a.qk_nope_dim + a.v_head_dim);
  w.out = a.heads * a.v_head_dim * arch.hidden;
  w.latent_norms = a.q_lora_rank + a.kv_lora_rank;
  return w;
}

void add_attention(const Architecture& arch, LayerParameters& layer) {
  const Attention& a = arch.attention;
  if (a.output_bias) layer.attention_replicated = arch.hidden;
  if (a.kind == AttentionKind::mla) {
    const MlaWeights w = mla_weights(arch);
    layer.attention_sharded = w.up_q_nope + w.up_q_rope + w.up_kv + w.out;
    layer.attention_replicated += w.down_q + w.down_kv + w.latent_norms;
    return;
  }
  const std::int64_t q_width = a.heads * a.head_dim;
  const std::int64_t kv_width = a.kv_heads * a.head_dim;
  layer.attention_sharded = 2 * arch.hidden * q_width + 2 * arch.hidden * kv_width;
  if (a.qkv_bias) layer.attention_sharded += q_width + 2 * kv_width;
  if (a.sinks) layer.attention_sharded += a.heads;
  if (a.qk_norm) layer.attention_replicated += a.qk_norm_all_heads ? q_width + kv_width : 2 * a.head_dim;
}

}  // namespace

std::int64_t LayerParameters::total() const {
  return attention_sharded + attention_replicated + norms + mlp + mlp_replicated + router + experts + shared +
         shared_replicated + shared_gate;
}

LayerParameters layer_parameters(const Architecture& arch, LayerKind kind) {
  LayerParameters layer;
  add_attention(arch, layer);
  layer.norms = 2 * norm(arch);
  if (kind == LayerKind::dense) {
    const MlpWeights mlp = mlp_weights(arch, arch.dense_ffn, arch.linear_bias);
    layer.mlp = mlp.sharded;
    layer.mlp_replicated = mlp.replicated;
    return layer;
  }
  const Moe& moe = arch.moe;
  const MlpWeights shared = mlp_weights(arch, moe.shared_ffn, arch.linear_bias);
  layer.router = arch.hidden * moe.experts + (arch.linear_bias ? moe.experts : 0);
  layer.experts = moe.experts * expert_weights(arch).total();
  layer.shared = shared.sharded;
  layer.shared_replicated = shared.replicated;
  layer.shared_gate = moe.shared_gate ? arch.hidden : 0;
  return layer;
}

std::int64_t ModelParameters::total() const {
  return embedding + head + positions + final_norm + attention + norms + mlp + router + experts + shared + mtp;
}

std::int64_t mtp_block_parameters(const Architecture& arch) {
  if (arch.mtp_layers == 0) return 0;
  return layer_parameters(arch, arch.mtp_kind()).total() + 2 * arch.hidden * arch.hidden + kMtpNorms * norm(arch);
}

std::int64_t padded_vocab(const Architecture& arch, std::int64_t tp) {
  return base::round_up(arch.vocab, arch.vocab_divisor * tp);
}

ModelParameters model_parameters(const Architecture& arch) {
  ModelParameters model;
  model.embedding = arch.vocab * arch.hidden;
  model.head = arch.tied_embeddings ? 0 : arch.vocab * arch.hidden;
  model.positions = arch.learned_positions * arch.hidden;
  model.final_norm = norm(arch);
  model.mtp = arch.mtp_layers * mtp_block_parameters(arch);
  const std::int64_t moe_layers = arch.moe_layer_count();
  const auto add = [&](LayerKind kind, std::int64_t count) {
    const LayerParameters layer = layer_parameters(arch, kind);
    model.attention += count * (layer.attention_sharded + layer.attention_replicated);
    model.norms += count * layer.norms;
    model.mlp += count * (layer.mlp + layer.mlp_replicated);
    model.router += count * layer.router;
    model.experts += count * layer.experts;
    model.shared += count * (layer.shared + layer.shared_replicated + layer.shared_gate);
  };
  add(LayerKind::moe, moe_layers);
  add(LayerKind::dense, arch.layer_count() - moe_layers);
  return model;
}

std::int64_t active_parameters(const Architecture& arch, ActiveConvention convention) {
  const ModelParameters model = model_parameters(arch);
  const std::int64_t chosen = arch.moe_layer_count() * arch.moe.top_k * expert_weights(arch).total();
  const std::int64_t ends = model.embedding + model.positions + model.head;
  const std::int64_t body = model.total() - ends - model.mtp - model.experts + chosen;
  const std::int64_t matrix = arch.vocab * arch.hidden;
  switch (convention) {
    case ActiveConvention::without_embedding_and_head:
      return body;
    case ActiveConvention::without_embedding:
      return body + matrix;  // a tied matrix still multiplies the token as the head
    case ActiveConvention::everything:
      break;
  }
  return body + ends;
}

RankLayerParameters rank_layer_parameters(const Architecture& arch, LayerKind kind, const Sharding& sharding) {
  const LayerParameters layer = layer_parameters(arch, kind);
  // Rounded up, so that an uneven division gives the largest rank.
  RankLayerParameters rank;
  rank.dense = base::ceil_div(layer.attention_sharded, sharding.tp) + layer.attention_replicated + layer.norms +
               base::ceil_div(layer.mlp, sharding.tp) + layer.mlp_replicated + layer.router +
               base::ceil_div(layer.shared, sharding.tp) + layer.shared_replicated + layer.shared_gate;
  if (kind == LayerKind::moe) {
    const MlpWeights expert = expert_weights(arch);
    rank.experts = base::ceil_div(arch.moe.experts, sharding.ep) *
                   (base::ceil_div(expert.sharded, sharding.etp) + expert.replicated);
  }
  return rank;
}

RankLayerParameters rank_mtp_parameters(const Architecture& arch, const Sharding& sharding) {
  if (arch.mtp_layers == 0) return {};
  RankLayerParameters rank = rank_layer_parameters(arch, arch.mtp_kind(), sharding);
  rank.dense += base::ceil_div(2 * arch.hidden * arch.hidden, sharding.tp) + kMtpNorms * norm(arch);
  return rank;
}

PaperLayerParameters paper_layer_parameters(const Architecture& arch, const Sharding& sharding) {
  const LayerParameters layer = layer_parameters(arch, LayerKind::moe);
  PaperLayerParameters paper;
  paper.norms = layer.norms;
  if (arch.attention.kind == AttentionKind::mla) {
    const MlaWeights w = mla_weights(arch);
    paper.mla = w.down_q + w.up_q_rope + w.down_kv + base::ceil_div(w.up_q_nope + w.up_kv + w.out, sharding.tp);
    paper.norms += w.latent_norms;
  } else {
    paper.mla = layer.attention_replicated + base::ceil_div(layer.attention_sharded, sharding.tp);
  }
  paper.moe = rank_layer_parameters(arch, LayerKind::moe, sharding).experts + layer.shared + layer.shared_replicated +
              layer.shared_gate + layer.router;
  return paper;
}

}  // namespace moeplan::model
