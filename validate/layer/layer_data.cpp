#include "layer/layer_data.h"

#include <cmath>

namespace moeplan::layer {

std::vector<FixedSpec> fixed_specs(const LayerCase& layer_case) {
  using Fill = FixedSpec::Fill;
  const LayerShape& s = layer_case.shape;
  const std::int64_t tokens = s.tokens * s.hidden, router = s.experts * s.hidden;
  const std::int64_t gate_up = s.experts * 2 * s.ffn * s.hidden, down = s.experts * s.ffn * s.hidden;
  const std::int64_t tiles = kernels::blocks_for(s.pairs(), kernels::kPairTile);
  const auto by_inputs = [](std::int64_t inputs) { return std::sqrt(3.0F / static_cast<float>(inputs)); };
  return {{"input", tokens * 2, Fill::random_bf16, 1, 1},
          {"output gradient", tokens * 2, Fill::random_bf16, 1, 2},
          {"router weight", router * 2, Fill::random_bf16, by_inputs(s.hidden), 3},
          {"gate-up weights", gate_up * 2, Fill::random_bf16, by_inputs(s.hidden), 4},
          {"down weights", down * 2, Fill::random_bf16, by_inputs(s.ffn), 5},
          {"router gradient", router * 4, Fill::zero, 0, 0},
          {"gate-up gradients", gate_up * 4, Fill::zero, 0, 0},
          {"down gradients", down * 4, Fill::zero, 0, 0},
          {"output", tokens * 2, Fill::zero, 0, 0},
          {"input gradient", tokens * 2, Fill::zero, 0, 0},
          {"choices", s.pairs() * 4, Fill::given, 0, 0},
          {"router choices", s.pairs() * 4, Fill::zero, 0, 0},
          {"weights", s.pairs() * 4, Fill::zero, 0, 0},
          {"weight gradients", s.pairs() * 4, Fill::zero, 0, 0},
          {"counts", tiles * s.experts * 4, Fill::zero, 0, 0},
          {"rows", s.experts * 8, Fill::zero, 0, 0},
          {"offsets", layer_case.chunks * (s.experts + 1) * 8, Fill::zero, 0, 0},
          {"rows of pairs", s.pairs() * 8, Fill::zero, 0, 0},
          {"new rows", s.pairs() * 8, Fill::zero, 0, 0},
          {"retained rows", (s.experts + 1) * 8, Fill::given, 0, 0}};
}

FixedTensors fixed_tensors(const std::vector<void*>& m) {
  return {static_cast<const Pack*>(m[kInput]),
          static_cast<const Pack*>(m[kOutputGradient]),
          static_cast<const Bf16*>(m[kRouter]),
          static_cast<const Bf16*>(m[kGateUp]),
          static_cast<const Bf16*>(m[kDown]),
          static_cast<float*>(m[kRouterGradient]),
          static_cast<float*>(m[kGateUpGradient]),
          static_cast<float*>(m[kDownGradient]),
          static_cast<Pack*>(m[kOutput]),
          static_cast<Pack*>(m[kInputGradient]),
          static_cast<const std::int32_t*>(m[kChoices]),
          static_cast<std::int32_t*>(m[kRouterChoices]),
          static_cast<float*>(m[kWeights]),
          static_cast<float*>(m[kWeightGradient]),
          static_cast<std::int32_t*>(m[kCounts]),
          static_cast<std::int64_t*>(m[kRows]),
          static_cast<std::int64_t*>(m[kOffsets]),
          static_cast<std::int64_t*>(m[kRowOfPair]),
          static_cast<std::int64_t*>(m[kNewRow]),
          static_cast<const std::int64_t*>(m[kRetained])};
}

std::vector<std::int64_t> retained_offsets(const LayerCase& layer_case) {
  std::vector<std::int64_t> offsets{0};
  for (const std::int64_t rows : retained_rows(layer_case)) offsets.push_back(offsets.back() + rows);
  return offsets;
}

}  // namespace moeplan::layer
