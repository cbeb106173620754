#include "plan/moe.h"

namespace moeplan::plan {

Treatment treatment_of(const policy::LayerDecision& decision) {
  return Treatment{decision.chunks, decision.backward,       decision.layer_notify,     decision.select,
                   decision.padded, decision.plan_placement, !decision.replicas.empty()};
}

Router::Router(Builder& builder) : b_(&builder) {
  const Shape& s = b_->shape();
  const std::int64_t cells = s.tokens_local * b_->scenario().model.moe.experts;
  scores_ = b_->tensor(TensorKind::activations_moe, "router scores (fp32)", cells * 4);
  probabilities_ = b_->tensor(TensorKind::activations_moe, "router probabilities (fp32)", cells * 4);
  map_ = b_->tensor(TensorKind::activations_moe, "routing map", cells);
}

void Router::forward() {
  const Shape& s = b_->shape();
  const std::int64_t experts = b_->scenario().model.moe.experts;
  b_->gemm("router", Family::router_permute, {s.tokens_local, experts, s.hidden}, {scores_});
  // Softmax or sigmoid, top-k, scatter into the map, balance statistics: small kernels over tokens x experts in fp32.
  b_->memory("router top-k", Family::router_permute, static_cast<double>(s.tokens_local * experts * 4 * 6), 8,
             {probabilities_, map_});
}

void Router::drop(Op& op) { op.frees.insert(op.frees.end(), {scores_, probabilities_, map_}); }

void Router::backward() {
  const Shape& s = b_->shape();
  const std::int64_t experts = b_->scenario().model.moe.experts;
  b_->memory("router top-k backward", Family::router_permute, static_cast<double>(s.tokens_local * experts * 4 * 5), 6,
             {}, {scores_, probabilities_, map_});
  b_->gemm("router dgrad", Family::router_permute, {s.tokens_local, s.hidden, experts, cost::GemmPass::dgrad}, {});
  b_->gemm("router wgrad", Family::router_permute, {experts, s.hidden, s.tokens_local, cost::GemmPass::wgrad}, {});
}

}  // namespace moeplan::plan
