#include "plan/moe.h"

// What LRMoE adds to the routed part: retained rows that forward keeps (mode A), and instances of experts on other
// ranks.
namespace moeplan::plan {

namespace {
constexpr std::int64_t kD = Shape::kElement;
constexpr auto kPermute = cost::MemoryAccess::permute;
constexpr auto kStream = cost::MemoryAccess::streaming;
constexpr Rows kHosted{Rows::Kind::hosted, false, 0};
constexpr Rows kLent{Rows::Kind::lent, false, 0};
}  // namespace

void Routed::keep_retained(const char* name, std::int64_t row_bytes, std::size_t i, Builder::Ids kept,
                           Builder::Ids dropped) {
  b_->row_memory(name, Family::router_permute, 0, 2 * row_bytes, received(i, true), kPermute, kept, dropped);
}

void Routed::dispatch_retained_gradient(std::size_t i) {
  const Chunk& c = chunks_[i];
  const Rows in = received(i, true), out = sent(i, true);
  const std::int64_t row_bytes = hidden_ * kD + 8;  // the gradient, and which row it is of
  b_->row_memory("permute retained gradients", Family::router_permute, chunk_tokens() * hidden_ * kD, hidden_ * kD, out,
                 kPermute, {exchanged_ ? c.grad_send : c.grad_fc2})
      .launches = 2;
  if (!exchanged_) return;
  b_->all_to_all("send retained gradients", out, row_bytes, false, {c.grad_received}, {c.grad_send});
  b_->row_memory("sort gradients by expert", Family::router_permute, 0, 2 * hidden_ * kD, in, kPermute, {c.grad_fc2},
                 {c.grad_received});
}

void Routed::make_instance_tensors() {
  const std::int64_t elements = (first_ + ffn_) * hidden_;
  const std::int64_t gradient = elements * b_->scenario().optimizer.main_grad_bytes;
  hosted_weights_ = b_->row_tensor(TensorKind::parameters, "weights of hosted experts", elements * kD, kHosted);
  hosted_gradients_ = b_->row_tensor(TensorKind::gradients, "gradients of hosted experts", gradient, kHosted);
  returned_gradients_ = b_->row_tensor(TensorKind::dispatch_buffers, "returned expert gradients", gradient, kLent);
}

void Routed::plan_placement() {
  // Counts of all experts from all members: the host places instances by them.
  const std::int64_t experts = b_->scenario().model.moe.experts;
  Op& op = b_->collective("plan placement", topology::GroupKind::ep, cost::Collective::all_gather,
                          b_->shape().ep * experts * 8, {});
  op.host_sync = true;
  op.launches = 3;
}

void Routed::place_experts() {
  b_->all_to_all("place experts", kLent, (first_ + ffn_) * hidden_ * kD, false, {hosted_weights_}).launches = 2;
}

void Routed::start_expert_gradients() {
  const std::int64_t bytes = (first_ + ffn_) * hidden_ * b_->scenario().optimizer.main_grad_bytes;
  b_->row_memory("zero gradients of hosted experts", Family::expert, 0, bytes, kHosted, kStream, {hosted_gradients_});
}

void Routed::return_expert_gradients() {
  const std::int64_t bytes = (first_ + ffn_) * hidden_ * b_->scenario().optimizer.main_grad_bytes;
  b_->all_to_all("return expert gradients", kLent, bytes, true, {returned_gradients_},
                 {hosted_gradients_, hosted_weights_})
      .launches = 2;
  b_->row_memory("add expert gradients", Family::expert, 0, 3 * bytes, kLent, kStream, {}, {returned_gradients_});
}

}  // namespace moeplan::plan
