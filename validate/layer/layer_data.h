#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "layer/layer_program.h"

// The fixed tensors of a layer run, described once: for a device, and for the host beside it.
namespace moeplan::layer {

struct FixedSpec {
  enum class Fill { random_bf16, zero, given };
  const char* name = "";
  std::int64_t bytes = 0;
  Fill fill = Fill::zero;
  float scale = 0;  // random: uniform between -scale and scale
  std::uint64_t seed = 0;
};

enum FixedName : std::size_t {
  kInput,
  kOutputGradient,
  kRouter,
  kGateUp,
  kDown,
  kRouterGradient,
  kGateUpGradient,
  kDownGradient,
  kOutput,
  kInputGradient,
  kChoices,
  kRouterChoices,
  kWeights,
  kWeightGradient,
  kCounts,
  kRows,
  kOffsets,
  kRowOfPair,
  kNewRow,
  kRetained,
  kFixedTensors
};

// In the order of FixedName. Weights keep the size of what goes through them: sqrt(3 / inputs) is the half width of a
// uniform distribution of variance 1 / inputs.
std::vector<FixedSpec> fixed_specs(const LayerCase& layer_case);
// The struct over memory that was made for each; pointers in the order of FixedName.
FixedTensors fixed_tensors(const std::vector<void*>& memory);
// Rows kept before each expert, and in all: what kRetained holds.
std::vector<std::int64_t> retained_offsets(const LayerCase& layer_case);

}  // namespace moeplan::layer
