#pragma once
#include <cstdint>

#include "plan/op.h"
#include "plan/shape.h"

// What the host does for an op. Megatron runs its modules eagerly: each operation passes Python, autograd and the
// dispatcher before its kernel is launched, which takes the host longer than most kernels of an MoE layer take the
// device. The unit is one eager PyTorch operation (host.operation of the profile).
namespace moeplan::plan {

// Sets `calls` of the ops of a block that runs eagerly. Blocks compiled as a whole (torchtitan) only launch kernels.
// Sources: a Transformer Engine linear layer costs 2.7 operations (TransformerEngine issue 2053); router and
// preprocessing of the dispatch have 72 kernels, 31 with the fused router, 17 with the fused preprocessing of a
// dispatch kernel (Megatron-LM docs/discussions/deepseek-v3-gb200-optimization, 1d9edcf8); grouped products are one
// product an expert (same page). The other counts follow Megatron-LM's and Transformer Engine's code.
void count_host_calls(Block& block, const scenario::Scenario& scenario, const Shape& shape);

// Megatron's distributed optimizer walks over the parameters in Python, four times: gradients to the owned shards, the
// update's lists, parameters back from the shards, gradients to zero.
void count_optimizer_calls(Block& block, const scenario::Scenario& scenario, const Shape& shape, std::int64_t stage);

}  // namespace moeplan::plan
