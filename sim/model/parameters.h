#pragma once
#include <cstdint>

#include "model/architecture.h"

// Parameter and FLOP counts. Formulas: docs/models.md; sources: Megatron-Core's sharding rules and
// the FLOP convention that published throughput tables use (6 x parameters that multiply a token, causal attention
// halved).
namespace moeplan::model {

// Counts of elements.
struct LayerParameters {
  std::int64_t attention_sharded = 0;     // split over TP: q, k, v, o; mla up-projections
  std::int64_t attention_replicated = 0;  // mla down-projections, q/k norms, mla latent norms
  std::int64_t norms = 0;                 // the two layer norms
  std::int64_t mlp = 0;                   // dense layer: gate, up, down (split over TP)
  std::int64_t router = 0;                // h x experts, replicated
  std::int64_t experts = 0;               // all routed experts (split over EP and ETP)
  std::int64_t shared = 0;                // shared expert (split over TP)
  std::int64_t shared_gate = 0;           // replicated
  std::int64_t total() const;
};

LayerParameters layer_parameters(const Architecture& arch, LayerKind kind);

struct ModelParameters {
  std::int64_t embedding = 0;
  std::int64_t head = 0;  // 0 when tied
  std::int64_t final_norm = 0;
  std::int64_t attention = 0, norms = 0, mlp = 0, router = 0, experts = 0, shared = 0;  // over all layers
  std::int64_t total() const;
};
ModelParameters model_parameters(const Architecture& arch);

// Parameters that one token touches: top_k experts instead of all; input embedding and head in or out by convention.
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

// Convention of arXiv 2502.07846: W_DQ, W_DKV, W_KR, W_QR and the shared expert whole, W_UQ, W_UK, W_UV, W_O divided by
// tp; the norms counted apart (2h plus the latent norms). Three groups as the paper prints them.
struct PaperLayerParameters {
  std::int64_t mla = 0, norms = 0, moe = 0;
};
PaperLayerParameters paper_layer_parameters(const Architecture& arch, const Sharding& sharding);

// Model FLOPs per token of forward and backward (recompute not counted), causal attention halved:
// 6 { sum over layers [P + C] + N_dense 3 h g_d + N_moe 3 h (k g_e + g_sh) + h V } with C = (s/2) a (d_qk + d_v); P as
// in docs/models.md.
double training_flops_per_token(const Architecture& arch, std::int64_t seq_length);

}  // namespace moeplan::model
