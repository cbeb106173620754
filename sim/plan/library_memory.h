#pragma once
#include <cstdint>

#include "plan/op.h"
#include "scenario/scenario.h"

// What libraries below the model allocate once and keep, inside PyTorch's allocator.
namespace moeplan::plan {

// Workspaces of matrix products. Of `overheads.workspace` bytes, or as CUBLAS_WORKSPACE_CONFIG says: one of each of
// PyTorch's own handles, which are one a thread (forward, and autograd's for backward), where a stage multiplies by
// PyTorch: under Megatron router, output layer and unfused attention. Of `overheads.transformer_engine_workspace`
// bytes: one of Transformer Engine, and four more for its grouped products, on four streams.
std::int64_t product_workspace_bytes(const scenario::Scenario& scenario, std::int64_t stage);

// Weight gradients are added to the gradient buffer by the product itself; autograd is handed an empty tensor in the
// weight's type and shape, which Transformer Engine keeps and hands out again: one for each distinct shape on the
// stage. 0 where gradients are divided (there they are tensors of their own), without gradient_accumulation_fusion and
// under torchtitan.
std::int64_t returned_gradient_bytes(const scenario::Scenario& scenario, std::int64_t stage);

// Megatron gathers the output layer's input over a tensor-parallel group into a buffer that it keeps.
std::int64_t gather_buffer_bytes(const scenario::Scenario& scenario, std::int64_t stage);

// Megatron's own graphs (cuda_graph_impl: local) read inputs and output gradients from tensors of their own, one pair a
// captured layer and microbatch in flight; Transformer Engine's read what the layer before wrote.
std::int64_t graph_input_bytes(const scenario::Scenario& scenario, std::int64_t stage);

}  // namespace moeplan::plan
