#include "base/checked.h"
#include "plan/moe.h"

// Megatron's allgather dispatcher: every rank of the expert group gets the tokens of all, takes the rows of its own
// experts, and sums come back by a reduce-scatter in the router weights' fp32. Backward is the mirror image.
namespace moeplan::plan {

namespace {
constexpr std::int64_t kD = Shape::kElement;
constexpr std::int64_t kWide = 4;     // fp32
constexpr std::int64_t kMapCell = 5;  // fp32 router weight and a flag, a token and expert
constexpr auto kGroup = topology::GroupKind::etp_ep;
constexpr auto kBuffer = TensorKind::dispatch_buffers;
constexpr auto kPermute = cost::MemoryAccess::permute;
}  // namespace

void Routed::make_allgather(Chunk& c) {
  const std::int64_t local = chunk_tokens() * hidden_, all = local * peers();
  const std::int64_t tokens = chunk_tokens() * peers();
  c.gathered = b_->tensor(kBuffer, "tokens of the expert group", all * kD);
  c.gathered_map =
      b_->tensor(kBuffer, "routing map of the expert group", tokens * b_->scenario().model.moe.experts * kMapCell);
  // The map of the local experts and its transpose, which picks the router weights.
  c.row_map = c.kept_row_map =
      b_->tensor(TensorKind::activations_moe, "local routing map", 2 * tokens * b_->shape().local_experts);
  c.unsorted = b_->tensor(kBuffer, "expert outputs by token", all * kD);
  c.wide = b_->tensor(kBuffer, "expert outputs by token (fp32)", all * kWide);
  c.summed = b_->tensor(kBuffer, "summed outputs (fp32)", local * kWide);
  c.grad_send = b_->tensor(kBuffer, "output gradient (fp32)", local * kWide);
  c.grad_wide = b_->tensor(kBuffer, "output gradients of the expert group (fp32)", all * kWide);
  c.grad_received = b_->tensor(kBuffer, "output gradients of the expert group", all * kD);
  c.grad_unsorted = b_->tensor(kBuffer, "input gradients by token", all * kD);
}

void Routed::dispatch_allgather(std::size_t i) {
  const Chunk& c = chunks_[i];
  const std::int64_t tokens = chunk_tokens() * peers(), cells = tokens * b_->scenario().model.moe.experts;
  b_->collective("gather routing map", kGroup, cost::Collective::all_gather, cells * kMapCell, {c.gathered_map})
      .launches = 2;
  b_->last().announces = true;
  b_->collective("gather tokens", kGroup, cost::Collective::all_gather, tokens * hidden_ * kD, {c.gathered});
  // The rows of each local expert are counted here; the host sizes the buffers by them.
  Op& count = b_->memory("count rows of local experts", Family::router_permute, static_cast<double>(cells * kMapCell),
                         6, {c.row_map}, {c.gathered_map});
  count.host_sync = !treatment_.padded;
  b_->row_memory("permute to local experts", Family::router_permute, 0, 2 * hidden_ * kD, received(i, false), kPermute,
                 {c.input, c.probabilities, c.sort_map}, {c.gathered})
      .launches = 4;
}

void Routed::combine_allgather(std::size_t i, TensorId output, bool drop) {
  const Chunk& c = chunks_[i];
  const std::int64_t local = chunk_tokens() * hidden_, all = local * peers();
  Op& unpermute = b_->row_memory("unpermute", Family::router_permute, 2 * all * kD, 2 * hidden_ * kD,
                                 received(i, false), kPermute, {c.unsorted}, {c.fc2});
  unpermute.launches = 2;
  if (drop) unpermute.frees.insert(unpermute.frees.end(), {c.sort_map, c.row_map});
  b_->memory("widen to fp32", Family::router_permute, static_cast<double>(all * (kD + kWide)), 1, {c.wide},
             {c.unsorted});
  b_->collective("sum outputs", kGroup, cost::Collective::reduce_scatter, all * kWide, {c.summed}, {c.wide});
  b_->memory("narrow to bf16", Family::router_permute, static_cast<double>(local * (kD + kWide)), 1, {output},
             {c.summed});
}

void Routed::dispatch_gradient_allgather(std::size_t i) {
  const Chunk& c = chunks_[i];
  const std::int64_t local = chunk_tokens() * hidden_, all = local * peers();
  b_->memory("widen gradient to fp32", Family::router_permute, static_cast<double>(local * (kD + kWide)), 1,
             {c.grad_send});
  b_->collective("gather output gradients", kGroup, cost::Collective::all_gather, all * kWide, {c.grad_wide},
                 {c.grad_send});
  b_->memory("narrow gradients to bf16", Family::router_permute, static_cast<double>(all * (kD + kWide)), 1,
             {c.grad_received}, {c.grad_wide});
  b_->row_memory("unpermute backward", Family::router_permute, 0, 2 * hidden_ * kD, received(i, false), kPermute,
                 {c.grad_fc2}, {c.grad_received})
      .launches = 2;
}

void Routed::return_gradient_allgather(std::size_t i, TensorId grad_input) {
  const Chunk& c = chunks_[i];
  const std::int64_t tokens = chunk_tokens() * peers(), all = tokens * hidden_;
  b_->row_memory("permute backward", Family::router_permute, 2 * all * kD, 2 * hidden_ * kD, received(i, false),
                 kPermute, {c.grad_unsorted}, {c.grad_input, c.sort_map, c.row_map})
      .launches = 4;
  b_->collective("sum input gradients", kGroup, cost::Collective::reduce_scatter, all * kD, {grad_input},
                 {c.grad_unsorted});
  b_->collective("sum router weight gradients", kGroup, cost::Collective::reduce_scatter,
                 tokens * b_->scenario().model.moe.experts * kWide, {});
}

}  // namespace moeplan::plan
