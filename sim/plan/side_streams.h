#pragma once
#include <cstdint>

#include "plan/op.h"
#include "scenario/scenario.h"

// What a finished block gains when its data do not stay on the rank: parameters and gradients that a data-parallel
// group divides (zero2, zero3, fsdp2, megatron_fsdp), and saved activations that wait on the host. The transfers run on
// streams of their own, beside the layers before and after.
namespace moeplan::plan {

struct BlockParameters {
  std::int64_t dense = 0, experts = 0;  // of this rank, whole
  std::int64_t linear = 0;              // of the dense ones in linear layers; experts are all
  std::int64_t all() const { return dense + experts; }
};

// Parameters whole while the block runs, those of the block ahead being gathered meanwhile; in backward the gradients,
// whole until they are scattered while the block behind runs. Sizes of the neighbours are taken as the block's own.
// Where pipeline stages keep parameters gathered (keeps_gathered) both travel in the first microbatch's forward and the
// last one's backward alone: `edge`.
void divide_parameters(Block& block, const scenario::Scenario& scenario, const BlockParameters& parameters, bool edge);

// Operations of modules that CUDA graphs capture cost the host nothing but the launch of each graph; a graph of the
// whole iteration not even that, and its host waits for nothing.
void capture_graphs(Block& block, const scenario::Scenario& scenario);

// Saved tensors of memory.offload_modules leave the device at the end of forward and are back at the start of backward,
// copied while the neighbouring blocks run.
void offload_activations(Block& block, const scenario::Scenario& scenario);

// Under the operation fuser the activation of the experts and the casts around it run in the epilogues of the grouped
// products: their tensors stay, their passes over memory go (Transformer Engine's fused grouped MLP).
void fuse_experts(Block& block, const scenario::Scenario& scenario);

// Weight gradients of experts move behind the exchange that follows them, so that they run while rows travel.
void delay_expert_wgrads(Block& block);

// Weight gradients of linear layers move from backward to block.weights, and with them the frees of what they read:
// inputs of linear layers and gradients of their outputs stay until then, all else goes with backward.
void split_backward(Block& block);

// Under overlap_param_gather parameters of the block ahead are gathered while the block runs forward; under
// overlap_grad_reduce its gradients are summed over their replicas while the blocks behind run. For edge blocks of
// shardings that do neither in every microbatch.
void overlap_step_edges(Block& block, const scenario::Scenario& scenario, const BlockParameters& parameters);

// Backward of a column-parallel linear layer under Megatron: its input is gathered again beside the product of the
// input gradient, whose sum over the ranks is scattered beside the weight gradient's product.
void overlap_tensor_parallel(Block& block, const scenario::Scenario& scenario);
// Under training.tp_comm_overlap (Transformer Engine's user buffers): products whose input is gathered, or whose output
// is reduce-scattered, run in pieces beside that. After all that counts what the host does.
void exchange_in_pieces(Block& block, const scenario::Scenario& scenario);
// What the user buffers take, outside PyTorch's allocator: one for each of the ten linear passes of a layer that
// Transformer Engine overlaps, of all rows of a microbatch; six that gather, in the type that products read, four that
// scatter, in bf16.
std::int64_t user_buffer_bytes(const scenario::Scenario& scenario);

}  // namespace moeplan::plan
