#include "plan/moe.h"

// Megatron's alltoall dispatcher: a copy of a token's row goes to the rank of each of its experts.
namespace moeplan::plan {

namespace {
constexpr std::int64_t kD = Shape::kElement;
constexpr std::int64_t kProbability = 4;  // fp32
constexpr auto kPermute = cost::MemoryAccess::permute;
}  // namespace

void Routed::dispatch_alltoall(std::size_t i, bool selects) {
  const Chunk& c = chunks_[i];
  const Rows in = received(i, false), out = sent(i, false);
  const std::int64_t token_bytes = chunk_tokens() * hidden_ * kD;
  // Kept rows: their counts travel with those of all rows, so that backward needs no exchange.
  const std::int64_t counts = (treatment_.padded ? 0 : 1) + (selects ? 1 : 0);
  if (counts > 0) notify(counts);
  const TensorId landing = etp_ ? c.arrived : c.received;
  const TensorId landing_probabilities = etp_ ? c.arrived_probabilities : c.received_probabilities;
  if (exchanged_) {
    b_->row_memory("permute", Family::router_permute, token_bytes, hidden_ * kD, out, kPermute,
                   {c.send, c.send_probabilities, c.row_map})
        .launches = 4;
    b_->all_to_all("dispatch", out, hidden_ * kD + kProbability, false, {landing, landing_probabilities},
                   {c.send, c.send_probabilities})
        .launches = 2;
  } else {  // one rank holds all experts: permuting sorts by expert
    b_->row_memory("permute", Family::router_permute, token_bytes, hidden_ * kD, out, kPermute,
                   {landing, landing_probabilities, c.row_map})
        .launches = 4;
  }
  if (etp_)
    b_->row_collective("gather rows", topology::GroupKind::etp, cost::Collective::all_gather,
                       hidden_ * kD + kProbability, in, {c.received, c.received_probabilities},
                       {landing, landing_probabilities});
  if (sorted_)
    b_->row_memory("sort by expert", Family::router_permute, 0, 2 * hidden_ * kD, in, kPermute,
                   {c.input, c.probabilities, c.sort_map}, {c.received, c.received_probabilities})
        .launches = 2;
  if (selects) b_->last().allocates.push_back(c.kept_row_map);
}

void Routed::combine_alltoall(std::size_t i, TensorId output, bool drop) {
  const Chunk& c = chunks_[i];
  const Rows in = received(i, false), out = sent(i, false);
  TensorId outgoing = c.fc2;
  if (sorted_) {
    Op& unsort = b_->row_memory("restore arrival order", Family::router_permute, 0, 2 * hidden_ * kD, in, kPermute,
                                {c.unsorted}, {c.fc2});
    if (drop) unsort.frees.push_back(c.sort_map);
    outgoing = c.unsorted;
  }
  if (etp_) {
    b_->row_collective("sum rows", topology::GroupKind::etp, cost::Collective::reduce_scatter, hidden_ * kD, in,
                       {c.reduced}, {outgoing});
    outgoing = c.reduced;
  }
  if (exchanged_) {
    b_->all_to_all("combine", out, hidden_ * kD, true, {c.returned}, {outgoing});
    outgoing = c.returned;
  }
  Op& unpermute = b_->row_memory("unpermute", Family::router_permute, chunk_tokens() * hidden_ * kD, hidden_ * kD, out,
                                 kPermute, {output}, {outgoing});
  if (drop) unpermute.frees.push_back(c.row_map);
  unpermute.launches = 2;
}

void Routed::dispatch_gradient_alltoall(std::size_t i) {
  const Chunk& c = chunks_[i];
  const Rows in = received(i, false), out = sent(i, false);
  const TensorId gathered = sorted_ ? c.grad_received : c.grad_fc2;
  const TensorId landing = etp_ ? c.grad_arrived : gathered;
  b_->row_memory("unpermute backward", Family::router_permute, chunk_tokens() * hidden_ * kD, hidden_ * kD, out,
                 kPermute, {exchanged_ ? c.grad_send : landing})
      .launches = 2;
  if (exchanged_) b_->all_to_all("combine backward", out, hidden_ * kD, false, {landing}, {c.grad_send});
  if (etp_)
    b_->row_collective("gather gradient rows", topology::GroupKind::etp, cost::Collective::all_gather, hidden_ * kD, in,
                       {gathered}, {landing});
  if (sorted_)
    b_->row_memory("sort gradients by expert", Family::router_permute, 0, 2 * hidden_ * kD, in, kPermute, {c.grad_fc2},
                   {c.grad_received});
}

void Routed::return_gradient_alltoall(std::size_t i, TensorId grad_input) {
  const Chunk& c = chunks_[i];
  const bool backward = retained();
  const Rows in = received(i, backward), out = sent(i, backward);
  TensorId outgoing = c.grad_input;
  if (sorted_) {
    Op& unsort = b_->row_memory("restore arrival order of gradients", Family::router_permute, 0, 2 * hidden_ * kD, in,
                                kPermute, {c.grad_unsorted}, {c.grad_input});
    if (!redispatches()) unsort.frees.push_back(c.kept_sort_map);
    outgoing = c.grad_unsorted;
  }
  if (etp_) {
    b_->row_collective("sum gradient rows", topology::GroupKind::etp, cost::Collective::reduce_scatter, hidden_ * kD,
                       in, {c.grad_reduced}, {outgoing});
    outgoing = c.grad_reduced;
  }
  if (exchanged_) {
    b_->all_to_all("dispatch backward", out, hidden_ * kD + (redispatches() ? 0 : kProbability), true,
                   {c.grad_returned}, {outgoing});
    outgoing = c.grad_returned;
  }
  Op& permute = b_->row_memory("permute backward", Family::router_permute, chunk_tokens() * hidden_ * kD, hidden_ * kD,
                               out, kPermute, {grad_input}, {outgoing, c.kept_row_map});
  permute.launches = 2;
}

}  // namespace moeplan::plan
