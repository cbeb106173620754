#pragma once
#include <cstdint>
#include <map>
#include <string>

#include "plan/op.h"
#include "plan/shape.h"

namespace moeplan::plan {

// Operator-level selective checkpointing as torchtitan applies it (memory.recompute_granularity: selective_op): a layer
// runs again in backward, but outputs of every second matrix product, of attention and of reduce-scatters were kept.
// Grouped products of experts, and the router's, run again (docs/models.md, Programs and saved tensors).
struct OperatorCheckpoint {
  std::int64_t bytes = 0;                 // that a layer keeps beside its input
  std::map<std::string, double> repeats;  // share of an operation's work that runs again, by name; all others whole
};
// The layer's MLP (of a MoE layer: its shared expert) is named `mlp` and `ffn` wide; 0: it has none.
OperatorCheckpoint operator_checkpoint(const scenario::Scenario& scenario, const Shape& shape, const std::string& mlp,
                                       std::int64_t ffn);
// Takes out of a finished block's backward what was kept: such operations cost nothing there.
void skip_kept(Block& block, const OperatorCheckpoint& checkpoint);

}  // namespace moeplan::plan
