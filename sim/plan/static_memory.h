#pragma once
#include <cstdint>
#include <vector>

#include "plan/op.h"
#include "scenario/scenario.h"

// What a rank holds all the time, and the row budgets that follow from it.
namespace moeplan::plan {

// Parameters of one rank of a stage (all ranks of a stage hold the same number).
struct StageParameters {
  std::int64_t dense =
      0;  // layers' dense parts, embedding on the first stage, head and final norm on the last; vocabulary padded
  std::int64_t experts = 0;
  std::int64_t replicated = 0;  // of dense: whole on every tensor-parallel rank (norms, router, mla down-projections)
};
// Of those, in matrices of linear layers: what a narrow precision quantises. Without router, embedding, head and layer
// norms; the norms of latents and heads (a ten-thousandth) are counted with them.
std::int64_t stage_linear_parameters(const scenario::Scenario& scenario, std::int64_t stage);
StageParameters stage_parameters(const scenario::Scenario& scenario, std::int64_t stage);

// Buffers that DeepEP or HybridEP registers for a rank when the job starts, outside PyTorch's allocator; 0 for others.
std::int64_t dispatch_buffer_bytes(const scenario::Scenario& scenario);

// Ranks that divide what the optimizer's sharding divides: of dense parameters and of experts. 1 under ddp.
struct Shards {
  std::int64_t dense = 1, experts = 1;
};
Shards shards_of(const scenario::Scenario& scenario);

// torchtitan with sharded parameters. Of pipeline stages PyTorch keeps parameters gathered from the first microbatch to
// the last, and adds whole gradients up in the type that is reduced; both travel once a step (_PipelineStageBase, FSDP2
// without resharding and gradient synchronisation). Without pipeline stages gradient shards arise in backward, and go
// when the next step begins (zero_grad).
bool keeps_gathered(const scenario::Scenario& scenario);
bool makes_gradient_shards(const scenario::Scenario& scenario);

// Bytes by kind, and what lives outside PyTorch's allocator.
struct StaticMemory {
  BytesByKind load{};     // after loading: parameters, gradients, fp32 masters, workspace (or the given static bytes)
  BytesByKind moments{};  // appear in the first optimizer step
  std::int64_t context_bytes = 0;       // outside the allocator
  std::int64_t communicator_bytes = 0;  // outside the allocator; with user buffers of tp_comm_overlap
  std::int64_t communicators = 0;
  std::int64_t dispatcher_bytes = 0;  // outside the allocator: buffers of dispatch kernels
  std::int64_t host_bytes = 0;        // of this rank in host memory: offloaded optimizer states
  std::int64_t steady_bytes()
      const;  // load + moments, what the closed form calls static memory (workspace not counted)
};
StaticMemory static_memory(const scenario::Scenario& scenario, std::int64_t stage);

// s'_max of equation 8 for a stage: rows a layer may receive under the adaptive rule. See docs/models.md, MemFine.
double memfine_max_rows(const scenario::Scenario& scenario, const policy::MemfineSettings& settings,
                        std::int64_t stage);
// Layers and microbatches whose retained rows are alive together on a rank of the stage: 1 in LRMoE's mode B and where
// the routed part is recomputed; in mode A the stage's MoE layers times the microbatches in flight.
double lrmoe_layers_held(const scenario::Scenario& scenario, std::int64_t stage);
// Bytes of one retained row a layer under the scenario's LRMoE settings: its backward buffers D (3h + 5g), and in mode
// A D (h + 3g) for every other layer that is held.
double lrmoe_row_bytes(const scenario::Scenario& scenario, std::int64_t stage);
// Rows that fit beside static memory and the kept token-level tensors; 0: none does.
double lrmoe_memory_rows(const scenario::Scenario& scenario, std::int64_t stage);

// The paper's closed form of activation bytes for a rank, generalised: token terms of all layers of the stage times the
// microbatches in flight (1 layer's with full recompute), routed rows of one chunk where the routed part is recomputed,
// of all layers in flight where it is kept. routed_rows: largest sum over one chunk (recomputed), or over the stage's
// layers of one microbatch (kept).
double closed_form_activation_bytes(const scenario::Scenario& scenario, std::int64_t stage, double routed_rows,
                                    bool routed_recomputed);

}  // namespace moeplan::plan
