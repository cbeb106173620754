#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "config/document.h"

// The shape of a transformer, as one file under models/ states it. Plain data; no sharding.
namespace moeplan::model {

enum class AttentionKind { gqa, mla };  // multi-head attention is gqa with kv_heads == heads

struct Attention {
  AttentionKind kind = AttentionKind::gqa;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;      // gqa; for mla equal to heads after the up-projection
  std::int64_t head_dim = 0;      // gqa: of query, key and value
  bool qkv_bias = false;          // gqa
  bool qk_norm = false;           // gqa: RMS norm over head_dim on queries and keys
  std::int64_t q_lora_rank = 0;   // mla: 0 when queries are projected directly
  std::int64_t kv_lora_rank = 0;  // mla
  std::int64_t qk_nope_dim = 0;   // mla: part of the head without rotary embedding
  std::int64_t qk_rope_dim = 0;   // mla: rotary part; its key is shared by all heads
  std::int64_t v_head_dim = 0;    // mla
  std::int64_t qk_dim() const { return kind == AttentionKind::mla ? qk_nope_dim + qk_rope_dim : head_dim; }
  std::int64_t v_dim() const { return kind == AttentionKind::mla ? v_head_dim : head_dim; }
};

struct Moe {
  std::int64_t experts = 0;  // routed experts a layer
  std::int64_t top_k = 0;
  std::int64_t ffn = 0;          // width of one routed expert (SwiGLU: gate and up are each this wide)
  std::int64_t shared_ffn = 0;   // total width of the shared expert, 0 when there is none
  bool shared_gate = false;      // a sigmoid gate of h parameters on the shared expert
  bool correction_bias = false;  // a bias per expert used in the choice only (not a trained parameter)
};

enum class LayerKind { dense, moe };

// Which parameters a publisher calls "active".
enum class ActiveConvention { everything, without_embedding, without_embedding_and_head };

struct Published {
  double total_parameters = 0;   // 0: the publisher states none
  double active_parameters = 0;  // 0: the publisher states none
  ActiveConvention active_convention = ActiveConvention::everything;
  std::string source;
};

struct Architecture {
  std::string id;     // name of the file, "qwen3-30b-a3b"
  std::string title;  // "Qwen3-30B-A3B"
  std::string source;
  std::int64_t hidden = 0;
  std::int64_t vocab = 0;
  std::int64_t dense_ffn = 0;  // SwiGLU width of dense layers, 0 when there are none
  bool tied_embeddings = false;
  Attention attention;
  Moe moe;
  std::vector<LayerKind> layers;  // one entry a layer, in order
  Published published;
  base::Where where_experts, where_layers, where_top_k, where_hidden;  // places for faults that two files make together

  std::int64_t layer_count() const { return static_cast<std::int64_t>(layers.size()); }
  std::int64_t moe_layer_count() const;
  std::vector<int> moe_layer_ids() const;  // global ids of the MoE layers, ascending
};

// Reads a model file (docs/models.md describes the keys). Adds all faults found to `faults`; what is returned is
// complete only when none were added. `id` is used when the file states no name.
Architecture read_architecture(const config::Node& root, const std::string& id, base::Faults& faults);

}  // namespace moeplan::model
