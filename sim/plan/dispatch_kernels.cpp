#include <cmath>

#include "plan/moe.h"

// Dispatch kernels, DeepEP and HybridEP: a token's row goes once to each rank that has one of its experts, out of the
// layer's own tensor (no permuted copy to send); each rank then copies what landed to the rows of its experts. DeepEP
// lands in a tensor of the allocator, HybridEP in its static buffer.
namespace moeplan::plan {

namespace {
constexpr std::int64_t kD = Shape::kElement;
constexpr std::int64_t kRoute = 12;  // int64 expert and fp32 weight, a token and chosen expert
constexpr auto kGroup = topology::GroupKind::etp_ep;
constexpr auto kBuffer = TensorKind::dispatch_buffers;
constexpr auto kPermute = cost::MemoryAccess::permute;
}  // namespace

void Routed::make_kernels(Chunk& c, std::size_t i, const std::string& tag) {
  const auto& moe = b_->scenario().model.moe;
  const std::int64_t tokens = chunk_tokens();
  // What the kernels need to send the same rows again, back, and their gradients. DeepEP: a flag and a slot (int32) a
  // token and rank; HybridEP: a slot a token and rank, and the routes to local experts of all tokens of the group.
  const std::int64_t handle = hybrid_ ? tokens * peers() * (4 + b_->shape().local_experts) : tokens * peers() * (1 + 4);
  c.row_map = c.kept_row_map = b_->tensor(TensorKind::activations_moe, "dispatch handle" + tag, handle);
  c.gathered_map =
      b_->tensor(kBuffer, "routing map of the expert group" + tag, hybrid_ ? tokens * peers() * moe.experts : 0);
  const auto landing = [&](const char* name, std::int64_t bytes) {
    // HybridEP's is no tensor of the allocator.
    return b_->row_tensor(kBuffer, name + tag, hybrid_ ? 0 : bytes, distinct(i));
  };
  c.received = landing("landed rows", hidden_ * kD);
  c.received_probabilities = landing("landed routes", moe.top_k * kRoute);
  c.unsorted = landing("expert outputs by landed row", hidden_ * kD);
  c.grad_received = landing("landed gradient rows", hidden_ * kD);
  c.grad_unsorted = landing("expert input gradients by landed row", hidden_ * kD);
}

void Routed::plan_kernels(std::size_t i) {
  const Chunk& c = chunks_[i];
  const bool waits = !treatment_.padded && slots_ == 0;
  const std::int64_t routes = chunk_tokens() * b_->scenario().model.moe.top_k;
  if (!hybrid_) {
    b_->memory("dispatch layout", Family::router_permute, static_cast<double>(2 * routes * kRoute), 4, {c.row_map});
    if (waits) notify();
    return;
  }
  // HybridEP gathers the routing of all tokens; every rank finds by itself what it sends and gets.
  const std::int64_t map = chunk_tokens() * peers() * b_->scenario().model.moe.experts;
  b_->collective("gather routing map", kGroup, cost::Collective::all_gather, map, {c.gathered_map}).launches = 2;
  b_->last().announces = true;
  Op& scan = b_->memory("dispatch preprocessing", Family::router_permute, static_cast<double>(2 * map), 3, {c.row_map},
                        {c.gathered_map});
  scan.host_sync = waits;
}

// Between landed rows and the rows of the experts: each side is read or written once.
void Routed::permute_landed(std::size_t i, const char* name, Builder::Ids allocates, Builder::Ids frees) {
  const double share = distinct_share(b_->scenario());
  const auto row = static_cast<double>(hidden_ * kD);
  b_->row_memory(name, Family::router_permute, 0, std::llround(row * (1 + share)), received(i, false), kPermute,
                 allocates, frees);
}

void Routed::dispatch_kernels(std::size_t i) {
  const Chunk& c = chunks_[i];
  plan_kernels(i);
  b_->dispatch_kernel("dispatch", sent(i, false), hidden_ * kD, false, {c.received, c.received_probabilities});
  permute_landed(i, "permute landed rows", {c.input, c.probabilities, c.sort_map},
                 {c.received, c.received_probabilities});
  b_->last().launches = hybrid_ ? 1 : 3;
}

void Routed::combine_kernels(std::size_t i, TensorId output, bool drop) {
  const Chunk& c = chunks_[i];
  permute_landed(i, "sum rows of a token", {c.unsorted}, {c.fc2});
  if (drop) b_->last().frees.push_back(c.sort_map);
  Op& combine = b_->dispatch_kernel("combine", sent(i, false), hidden_ * kD, true, {output}, {c.unsorted});
  if (drop) combine.frees.push_back(c.row_map);
}

void Routed::dispatch_gradient_kernels(std::size_t i) {
  const Chunk& c = chunks_[i];
  b_->dispatch_kernel("combine backward", sent(i, false), hidden_ * kD, false, {c.grad_received});
  permute_landed(i, "permute landed gradients", {c.grad_fc2}, {c.grad_received});
}

void Routed::return_gradient_kernels(std::size_t i, TensorId grad_input) {
  const Chunk& c = chunks_[i];
  permute_landed(i, "sum gradients of a token", {c.grad_unsorted}, {c.grad_input, c.sort_map});
  b_->dispatch_kernel("dispatch backward", sent(i, false), hidden_ * kD, true, {grad_input},
                      {c.grad_unsorted, c.row_map});
}

}  // namespace moeplan::plan
