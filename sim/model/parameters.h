#pragma once
#include <cstdint>

#include "model/architecture.h"

// Parameter and FLOP counts. Formulas: docs/models.md; sources: Megatron-Core's sharding rules and
// the FLOP convention that published throughput tables use (6 x parameters that multiply a token, causal attention
// halved).
namespace moeplan::model {

// Counts of elements.
struct LayerParameters {
  std::int64_t attention_sharded = 0;     // split over TP: q, k, v, o; mla up-projections; biases of q, k, v; sinks
  std::int64_t attention_replicated = 0;  // mla down-projections, q/k norms, mla latent norms, bias of o
  std::int64_t norms = 0;                 // the two layer norms
  std::int64_t mlp = 0;                   // dense layer: projections and bias of the first (split over TP)
  std::int64_t mlp_replicated = 0;        // bias of the second projection
  std::int64_t router = 0;                // h x experts, and its bias; replicated
  std::int64_t experts = 0;               // all routed experts (split over EP and ETP)
  std::int64_t shared = 0;                // shared expert (split over TP)
  std::int64_t shared_replicated = 0;     // bias of its second projection
  std::int64_t shared_gate = 0;           // replicated
  std::int64_t total() const;
};

LayerParameters layer_parameters(const Architecture& arch, LayerKind kind);

struct ModelParameters {
  std::int64_t embedding = 0;
  std::int64_t head = 0;       // 0 when tied
  std::int64_t positions = 0;  // learned position embedding
  std::int64_t final_norm = 0;
  std::int64_t attention = 0, norms = 0, mlp = 0, router = 0, experts = 0, shared = 0;  // over all layers, not MTP
  std::int64_t mtp = 0;  // all multi-token-prediction blocks; they share embedding and head with the model
  std::int64_t total() const;
};
ModelParameters model_parameters(const Architecture& arch);

// Parameters of one multi-token-prediction block: projection, norms and its layer; 0 when the model has none.
std::int64_t mtp_block_parameters(const Architecture& arch);

// Rows of the embedding and the head: the vocabulary rounded up to a multiple of vocab_divisor x tp, as Megatron pads.
std::int64_t padded_vocab(const Architecture& arch, std::int64_t tp);

// Parameters that one token touches: top_k experts instead of all; input embedding (with learned positions) and head in
// or out by convention. Multi-token-prediction blocks are left out, as publishers do.
std::int64_t active_parameters(const Architecture& arch, ActiveConvention convention);

struct Sharding {
  std::int64_t tp = 1, ep = 1, etp = 1;
};

// What one rank holds of one layer, in the two groups whose optimizer states are divided differently.
struct RankLayerParameters {
  std::int64_t dense = 0;    // attention, norms, dense and shared MLP, router: optimizer states divided by DP x CP
  std::int64_t experts = 0;  // routed experts: optimizer states divided by EDP
};
// Megatron: mla down-projections, norms and router whole on each TP rank; up-projections, q, k, v, o, dense and shared
// MLP divided by tp.
RankLayerParameters rank_layer_parameters(const Architecture& arch, LayerKind kind, const Sharding& sharding);

// One multi-token-prediction block without embedding and head: its layer, the projection of 2h to h divided by tp
// (column-parallel) and three norms whole. All 0 when the model has none.
RankLayerParameters rank_mtp_parameters(const Architecture& arch, const Sharding& sharding);

// Convention of arXiv 2502.07846: W_DQ, W_DKV, W_KR, W_QR and the shared expert whole, W_UQ, W_UK, W_UV, W_O divided by
// tp; the norms counted apart (2h plus the latent norms). Three groups as the paper prints them.
struct PaperLayerParameters {
  std::int64_t mla = 0, norms = 0, moe = 0;
};
PaperLayerParameters paper_layer_parameters(const Architecture& arch, const Sharding& sharding);

// Model FLOPs per token of forward and backward (recompute not counted), causal attention halved:
// 6 { sum over layers and MTP blocks [P + C] + N_dense m h g_d + N_moe m h (k g_e + g_sh) + (1 + n_mtp) h V
// + n_mtp 2 h^2 } with C = (min(s, window)/2) a (d_qk + d_v), m = 3 for swiglu and 2 for gelu; P as in docs/models.md.
double training_flops_per_token(const Architecture& arch, std::int64_t seq_length);

}  // namespace moeplan::model
