#pragma once
#include <cstdint>

#include "plan/op.h"
#include "scenario/scenario.h"

// What libraries below the model allocate once and keep, inside PyTorch's allocator.
namespace moeplan::plan {

// Workspaces of matrix products, one of `overheads.workspace` bytes each: PyTorch's own handle; under Megatron one of
// Transformer Engine, and four more for its grouped products, which run on four streams.
std::int64_t product_workspace_bytes(const scenario::Scenario& scenario, std::int64_t stage);

// Weight gradients are added to the gradient buffer by the product itself; autograd is handed an empty tensor in the
// weight's type and shape, which Transformer Engine keeps and hands out again: one for each distinct shape on the
// stage. 0 where gradients are divided (there they are tensors of their own) and under torchtitan.
std::int64_t returned_gradient_bytes(const scenario::Scenario& scenario, std::int64_t stage);

// Megatron gathers the output layer's input over a tensor-parallel group into a buffer that it keeps.
std::int64_t gather_buffer_bytes(const scenario::Scenario& scenario, std::int64_t stage);

}  // namespace moeplan::plan
