#pragma once
#include <cstddef>
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
  std::int64_t kv_heads = 0;       // gqa; for mla equal to heads after the up-projection
  std::int64_t head_dim = 0;       // gqa: of query, key and value
  bool qkv_bias = false;           // gqa
  bool output_bias = false;        // of the output projection, h elements
  bool sinks = false;              // gqa: one learned logit a query head that takes part in the softmax
  bool qk_norm = false;            // gqa: RMS norm over head_dim on queries and keys
  bool qk_norm_all_heads = false;  // gqa with qk_norm: one norm over all heads together instead
  std::int64_t q_lora_rank = 0;    // mla: 0 when queries are projected directly
  std::int64_t kv_lora_rank = 0;   // mla
  std::int64_t qk_nope_dim = 0;    // mla: part of the head without rotary embedding
  std::int64_t qk_rope_dim = 0;    // mla: rotary part; its key is shared by all heads
  std::int64_t v_head_dim = 0;     // mla
  std::int64_t qk_dim() const { return kind == AttentionKind::mla ? qk_nope_dim + qk_rope_dim : head_dim; }
  std::int64_t v_dim() const { return kind == AttentionKind::mla ? v_head_dim : head_dim; }
  bool operator==(const Attention&) const = default;
};

// What stands between the two projections of an MLP, dense or expert. swiglu: gate and up, each of the width; gelu: the
// first projection has the width itself.
enum class MlpKind { swiglu, gelu };

struct Moe {
  std::int64_t experts = 0;  // routed experts a layer
  std::int64_t top_k = 0;
  std::int64_t ffn = 0;          // width of one routed expert (swiglu: gate and up are each this wide)
  std::int64_t shared_ffn = 0;   // total width of the shared expert, 0 when there is none
  bool shared_gate = false;      // a sigmoid gate of h parameters on the shared expert
  bool correction_bias = false;  // a bias per expert used in the choice only (not a trained parameter)
  bool expert_bias = false;      // biases of the experts' projections (implied by Architecture::linear_bias)
  // Group-limited routing: experts stand in `groups` equal groups and a token uses those of at most `groups_limit`;
  // 0 and 0: any experts. A group is usually placed on one node (or one device).
  std::int64_t groups = 0, groups_limit = 0;
  bool operator==(const Moe&) const = default;
};

enum class LayerKind { dense, moe };

// Which parameters a publisher calls "active".
enum class ActiveConvention { everything, without_embedding, without_embedding_and_head };

// Figures of the publisher, without multi-token-prediction blocks.
struct Published {
  double total_parameters = 0;   // 0: the publisher states none
  double active_parameters = 0;  // 0: the publisher states none
  ActiveConvention active_convention = ActiveConvention::everything;
  std::string source;
  bool operator==(const Published&) const = default;
};

struct Architecture {
  std::string id;     // name of the file, "qwen3-30b-a3b"
  std::string title;  // "Qwen3-30B-A3B"
  std::string source;
  std::int64_t hidden = 0;
  std::int64_t vocab = 0;
  std::int64_t vocab_divisor = 128;  // the vocabulary is padded to a multiple of this times TP
  std::int64_t dense_ffn = 0;        // width of dense layers, 0 when there are none
  bool tied_embeddings = false;
  std::int64_t learned_positions = 0;  // rows of a learned position embedding, 0: none (rotary)
  MlpKind mlp = MlpKind::swiglu;
  bool linear_bias = false;      // biases of all linear layers but the head: q, k, v, output, MLPs, experts, router
  double activation_clamp = 0;   // gate and up are clamped to it before the activation; 0: not
  bool layer_norm_bias = false;  // the norms are LayerNorm (weight and bias), not RMSNorm; not those of q, k, latents
  Attention attention;
  Moe moe;
  std::vector<LayerKind> layers;      // one entry a layer, in order
  std::vector<std::int64_t> windows;  // keys that a query sees (itself counted), one entry a layer; 0: all before it
  // Multi-token prediction: blocks behind the last layer, each a projection of 2h to h, three norms and one more layer
  // of the kind (and window) of the last one; each makes logits with the model's head.
  std::int64_t mtp_layers = 0;
  Published published;
  base::Where where_experts, where_layers, where_top_k, where_hidden;  // places for faults that two files make together

  std::int64_t layer_count() const { return static_cast<std::int64_t>(layers.size()); }
  std::int64_t moe_layer_count() const;
  std::vector<int> moe_layer_ids() const;  // global ids of the MoE layers, ascending
  LayerKind mtp_kind() const { return layers.back(); }
  std::int64_t window(std::size_t layer) const { return layer < windows.size() ? windows[layer] : 0; }
  bool has_windows() const;
};

// Reads a model file (docs/models.md describes the keys). Adds all faults found to `faults`; what is returned is
// complete only when none were added. `id` is used when the file states no name.
Architecture read_architecture(const config::Node& root, const std::string& id, base::Faults& faults);

}  // namespace moeplan::model
