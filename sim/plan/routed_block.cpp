#include "plan/blocks.h"

namespace moeplan::plan {

Block make_routed_block(const scenario::Scenario& scenario, const Shape& shape, const Treatment& treatment) {
  Block block;
  block.name = "MoE part";
  Builder b(block, scenario, shape);
  const std::int64_t bytes = shape.tokens_local * shape.hidden * Shape::kElement;
  const auto stream = [&](const char* name) { return b.tensor(TensorKind::activations_dense, name, bytes); };
  const TensorId input = stream("normed input"), output = stream("MoE output");
  const TensorId grad_output = stream("output gradient"), grad_input = stream("MoE input gradient");
  Router router(b);
  Routed routed(b, treatment);
  b.into_forward();
  b.fixed("input arrives", Family::router_permute, 0.0, 0, {input});
  router.forward();
  routed.forward(output, holds_activations(treatment.backward));
  b.fixed("output leaves", Family::router_permute, 0.0, 0, {}, {output});
  b.into_backward();
  b.fixed("output gradient arrives", Family::router_permute, 0.0, 0, {grad_output});
  routed.backward(grad_input);
  router.backward();
  b.fixed("input gradient leaves", Family::router_permute, 0.0, 0, {}, {input, grad_output, grad_input});
  return block;
}

}  // namespace moeplan::plan
