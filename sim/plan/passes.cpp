#include "plan/passes.h"

namespace moeplan::plan {

namespace {

// Reads and writes of one element, in bytes, in the order of the operators.
// PyTorch's rms_norm before it had a kernel of its own (native/layer_norm.cpp): to fp32, square, mean, times the
// inverse root, to bf16, times the weight.
constexpr std::int64_t kNormForward = (2 + 4) + (4 + 4) + 4 + (4 + 4) + (4 + 2) + (2 + 2);
// The weight's product (gradient of its input; of itself a product and its sum), to fp32, the root's product
// (likewise), the mean's quotient, the square (a power, twice, times the gradient), the sum of both branches, to bf16.
constexpr std::int64_t kNormBackward =
    (2 + 2) + (4 + 2) + 2 + (2 + 4) + (4 + 4) + (8 + 4) + 4 + 4 + (4 + 4) + (4 + 4) + (8 + 4) + (8 + 4) + (4 + 2);
constexpr std::int64_t kResidualGradient = 4 + 2;
// To fp32, a complex product, to bf16 (torchtitan's apply_rotary_emb); backward is the same.
constexpr std::int64_t kRotary = (2 + 4) + (4 + 4) + (4 + 2);
// silu(gate) * up, in bf16.
constexpr std::int64_t kGateForward = (2 + 2) + (4 + 2);
constexpr std::int64_t kGateBackward = (4 + 2) + (4 + 2) + (4 + 2);

}  // namespace

Passes passes(const scenario::Scenario& scenario) {
  const auto& training = scenario.training;
  const std::int64_t gates = scenario.model.mlp == model::MlpKind::swiglu ? 2 : 1;
  Passes result;
  result.activation_forward = 2 * (gates + 1);
  result.activation_backward = 2 * (2 * gates + 1);
  if (!training.rms_norm_fusion) {
    result.norm_forward = kNormForward;
    result.norm_backward = kNormBackward;
  }
  const bool eager = training.framework == scenario::Framework::torchtitan && !training.compile;
  if (eager) {
    result.rotary = kRotary;
    result.residual_gradient = kResidualGradient;
  }
  if (gates == 2 && (eager || !training.bias_activation_fusion)) {
    result.activation_forward = kGateForward;
    result.activation_backward = kGateBackward;
  }
  return result;
}

}  // namespace moeplan::plan
