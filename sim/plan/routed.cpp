#include <string>

#include "base/checked.h"
#include "plan/moe.h"

namespace moeplan::plan {

namespace {
constexpr std::int64_t kD = Shape::kElement;
constexpr std::int64_t kProbability = 4;  // fp32
constexpr std::int64_t kRowIndex = 8;     // int64 position of a row
constexpr auto kMoe = TensorKind::activations_moe;
constexpr auto kBuffer = TensorKind::dispatch_buffers;
constexpr auto kPermute = cost::MemoryAccess::permute;
constexpr auto kStream = cost::MemoryAccess::streaming;
}  // namespace

bool holds_activations(policy::RoutedBackward backward) {
  return backward == policy::RoutedBackward::kept || backward == policy::RoutedBackward::kept_retained;
}

Rows Routed::received(std::size_t chunk, bool backward) const {
  return Rows{Rows::Kind::received, backward, static_cast<std::int16_t>(chunk)};
}
Rows Routed::arrived(std::size_t chunk) const {
  return Rows{Rows::Kind::arrived, false, static_cast<std::int16_t>(chunk)};
}
Rows Routed::sent(std::size_t chunk, bool backward) const {
  return Rows{Rows::Kind::sent, backward, static_cast<std::int16_t>(chunk)};
}

Routed::Routed(Builder& builder, const Treatment& treatment) : b_(&builder), treatment_(treatment) {
  const Shape& s = b_->shape();
  const auto& scenario = b_->scenario();
  recompute_act_ = scenario.recompute.granularity == scenario::RecomputeGranularity::selective &&
                   scenario.recompute.has(scenario::RecomputeModule::moe_act);
  exchanged_ = s.ep > 1;
  etp_ = s.etp > 1;
  sorted_ = (exchanged_ || etp_) && (s.local_experts > 1 || treatment.replicate);
  ffn_ = scenario.model.moe.ffn / s.etp;
  first_ = s.gates * ffn_;
  hidden_ = s.hidden;
  for (std::size_t i = 0; i < static_cast<std::size_t>(treatment.chunks); ++i) {
    const std::string tag = treatment.chunks > 1
                                ? " (chunk " + std::to_string(i + 1) + " of " + std::to_string(treatment.chunks) + ")"
                                : "";
    auto row = [&](TensorKind kind, const char* name, std::int64_t bytes, Rows rows) {
      return b_->row_tensor(kind, name + tag, bytes, rows);
    };
    const Rows in = received(i, false), out = sent(i, false);
    const Rows grad_in = received(i, retained()), grad_out = sent(i, retained());
    const std::int64_t tokens = chunk_tokens();
    Chunk c{};
    c.send = row(kBuffer, "permuted rows to send", hidden_ * kD, out);
    c.send_probabilities = row(kBuffer, "probabilities to send", kProbability, out);
    c.row_map = row(kMoe, "row map", kRowIndex, out);
    c.received = row(kBuffer, "received rows", hidden_ * kD, in);
    c.received_probabilities = row(kBuffer, "received probabilities", kProbability, in);
    c.input = row(kMoe, "expert input", hidden_ * kD, in);
    c.probabilities = row(kMoe, "expert probabilities", kProbability, in);
    c.sort_map = row(kMoe, "sort map", kRowIndex, in);
    c.fc1 = row(kMoe, "expert gate-up output", first_ * kD, in);
    c.act = row(kMoe, "expert activation", ffn_ * kD, in);
    c.fc2 = row(kBuffer, "expert output", hidden_ * kD, in);
    c.unsorted = row(kBuffer, "expert output, in arrival order", hidden_ * kD, in);
    c.returned = row(kBuffer, "combined rows", hidden_ * kD, out);
    if (etp_) {  // this rank's share of the rows, before the peers' are gathered and after the partial outputs are
                 // summed
      const Rows share = arrived(i);
      c.arrived = row(kBuffer, "arrived rows", hidden_ * kD, share);
      c.arrived_probabilities = row(kBuffer, "arrived probabilities", kProbability, share);
      c.reduced = row(kBuffer, "summed rows", hidden_ * kD, share);
      c.grad_arrived = row(kBuffer, "arrived gradient rows", hidden_ * kD, share);
      c.grad_reduced = row(kBuffer, "summed gradient rows", hidden_ * kD, share);
    }
    c.output = b_->tensor(kBuffer, "chunk output" + tag, tokens * hidden_ * kD);
    // Re-dispatch sends input and output gradient of a row, and its index; kept rows need gradient and index; else the
    // gradient alone goes the dispatch's way.
    const std::int64_t gradient_bytes = (redispatches() ? 2 : 1) * hidden_ * kD + (retained() ? kRowIndex : 0);
    c.grad_send = row(kBuffer, "gradient rows to send", gradient_bytes, grad_out);
    c.grad_received = row(kBuffer, "received gradient rows", gradient_bytes, grad_in);
    c.grad_fc2 = row(kBuffer, "expert output gradient", hidden_ * kD, grad_in);
    c.grad_act = row(kMoe, "expert activation gradient", ffn_ * kD, grad_in);
    c.grad_fc1 = row(kMoe, "expert gate-up gradient", first_ * kD, grad_in);
    c.grad_probabilities = row(kMoe, "expert probability gradient", kProbability, grad_in);
    c.grad_input = row(kBuffer, "expert input gradient", hidden_ * kD, grad_in);
    c.grad_unsorted = row(kBuffer, "expert input gradient, in arrival order", hidden_ * kD, grad_in);
    c.grad_returned = row(kBuffer, "returned gradient rows", hidden_ * kD, grad_out);
    c.grad_output = b_->tensor(kBuffer, "chunk input gradient" + tag, tokens * hidden_ * kD);
    c.kept_input = c.input;
    c.kept_probabilities = c.probabilities;
    c.kept_sort_map = c.sort_map;
    c.kept_fc1 = c.fc1;
    c.kept_act = c.act;
    c.kept_row_map = c.row_map;
    if (retained()) {
      c.kept_input = row(kMoe, "retained expert input", hidden_ * kD, grad_in);
      c.kept_fc1 = row(kMoe, "retained gate-up output", first_ * kD, grad_in);
      c.kept_act = row(kMoe, "retained activation", ffn_ * kD, grad_in);
      c.kept_row_map = row(kMoe, "retained row map", kRowIndex, grad_out);
    }
    if (keeps_retained()) {
      c.kept_probabilities = row(kMoe, "retained expert probabilities", kProbability, grad_in);
      c.kept_sort_map = row(kMoe, "retained sort map", kRowIndex, grad_in);
    }
    chunks_.push_back(c);
  }
  scores_ = b_->tensor(kMoe, "selection scores", s.tokens_local * scenario.model.moe.top_k * 4);
  dummy_fc1_ = b_->tensor(TensorKind::workspace, "expert gate-up returned weight gradients",
                          s.local_experts * first_ * hidden_ * kD);
  dummy_fc2_ =
      b_->tensor(TensorKind::workspace, "expert down returned weight gradients", s.local_experts * ffn_ * hidden_ * kD);
  make_instance_tensors();
}

std::int64_t Routed::chunk_tokens() const { return base::ceil_div(b_->shape().tokens_local, treatment_.chunks); }

void Routed::notify(std::int64_t counts_per_expert) {
  // Every rank learns how many rows it gets: counts of all experts from all members, which the host reads to size the
  // buffers.
  const std::int64_t experts = b_->scenario().model.moe.experts;
  Op& op = b_->collective("notify", topology::GroupKind::ep, cost::Collective::all_gather,
                          b_->shape().ep * experts * counts_per_expert * 8, {});
  op.host_sync = true;
  op.launches = 3;
}

void Routed::forward(TensorId output, bool keep) {
  if (treatment_.layer_notify) notify();
  if (keeps_retained() && keep)
    select();
  else if (treatment_.plan_placement)
    plan_placement();
  if (treatment_.replicate) place_experts();
  for (std::size_t i = 0; i < chunks_.size(); ++i)
    forward_chunk(i, chunks_.size() > 1 ? chunks_[i].output : output, keep);
  if (chunks_.size() > 1) concatenate(output, false);
  if (treatment_.replicate && !keep) b_->last().frees.push_back(hosted_weights_);
}

void Routed::concatenate(TensorId whole, bool gradient) {
  Op& op = b_->memory(gradient ? "concatenate chunk gradients" : "concatenate chunks", Family::router_permute,
                      static_cast<double>(2 * b_->shape().tokens_local * hidden_ * kD), 1, {whole});
  for (const Chunk& c : chunks_) op.frees.push_back(gradient ? c.grad_output : c.output);
}

void Routed::forward_chunk(std::size_t i, TensorId output, bool keep) {
  const Chunk& c = chunks_[i];
  const Rows in = received(i, false), out = sent(i, false);
  const std::int64_t token_bytes = chunk_tokens() * hidden_ * kD;
  // Kept rows: their counts travel with those of all rows, so that backward needs no exchange.
  const bool selects = keep && keeps_retained();
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
  const TensorId input = sorted_ ? c.input : c.received;
  const TensorId probabilities = sorted_ ? c.probabilities : c.received_probabilities;
  Op& fc1 = b_->grouped("expert gate-up", first_, hidden_, cost::GemmPass::forward, in, {c.fc1});
  if (!keep) fc1.frees.push_back(input);
  if (selects) {
    keep_retained("keep retained inputs", hidden_ * kD, i, {c.kept_input}, {input});
    if (sorted_) b_->last().allocates.push_back(c.kept_sort_map);
  }
  Op& act =
      b_->row_memory("expert SwiGLU", Family::expert, 0, (first_ + ffn_) * kD + kProbability, in, kStream, {c.act});
  if (!keep) act.frees.insert(act.frees.end(), {c.fc1, probabilities});
  if (selects)
    keep_retained("keep retained gate-up outputs", first_ * kD + kProbability, i, {c.kept_fc1, c.kept_probabilities},
                  {c.fc1, probabilities});
  Op& fc2 = b_->grouped("expert down", hidden_, ffn_, cost::GemmPass::forward, in, {c.fc2});
  if (!keep || recompute_act_) fc2.frees.push_back(c.act);
  if (selects && !recompute_act_) keep_retained("keep retained activations", ffn_ * kD, i, {c.kept_act}, {c.act});
  TensorId outgoing = c.fc2;
  if (sorted_) {
    Op& unsort = b_->row_memory("restore arrival order", Family::router_permute, 0, 2 * hidden_ * kD, in, kPermute,
                                {c.unsorted}, {c.fc2});
    if (!keep || selects) unsort.frees.push_back(c.sort_map);
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
  Op& unpermute = b_->row_memory("unpermute", Family::router_permute, token_bytes, hidden_ * kD, out, kPermute,
                                 {output}, {outgoing});
  if (!keep || selects) unpermute.frees.push_back(c.row_map);
  unpermute.launches = 2;
}

void Routed::backward(TensorId grad_input) {
  if (treatment_.select && !keeps_retained()) select();
  if (treatment_.replicate) {
    if (!holds_activations(treatment_.backward)) place_experts();  // forward dropped them with the rest
    start_expert_gradients();
  }
  for (std::size_t i = 0; i < chunks_.size(); ++i) {
    switch (treatment_.backward) {
      case policy::RoutedBackward::kept:
        dispatch_gradient(i);
        break;
      case policy::RoutedBackward::recompute: {
        b_->set_recompute(true);
        forward_chunk(i, chunks_[i].output, true);
        b_->last().frees.push_back(chunks_[i].output);  // only the graph was wanted
        b_->set_recompute(false);
        dispatch_gradient(i);
        break;
      }
      case policy::RoutedBackward::redispatch:
        redispatch(i);
        break;
      case policy::RoutedBackward::kept_retained:
        dispatch_retained_gradient(i);
        break;
    }
    expert_backward(i);
    return_gradient(i, chunks_.size() > 1 ? chunks_[i].grad_output : grad_input);
  }
  if (chunks_.size() > 1) concatenate(grad_input, true);
  if (treatment_.replicate) return_expert_gradients();
}

void Routed::dispatch_gradient(std::size_t i) {
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

void Routed::select() {
  // Counts are summed over the group and quotas computed (planning), scores read inputs and output gradients of the
  // local tokens (the router weights alone where forward selects), then a selection per expert over the keys of the
  // local pairs.
  const Shape& s = b_->shape();
  const auto& moe = b_->scenario().model.moe;
  Op& plan = b_->collective("plan quotas", topology::GroupKind::ep, cost::Collective::all_reduce, moe.experts * 8, {});
  plan.host_sync = true;
  plan.launches = 3;
  const std::int64_t read = keeps_retained() ? s.tokens_local * moe.top_k * 4 : 4 * s.tokens_local * s.hidden;
  b_->memory("score pairs", Family::router_permute, static_cast<double>(read), 2, {scores_});
  b_->memory("select pairs", Family::router_permute,
             static_cast<double>(s.tokens_local * moe.top_k * (4 + kRowIndex) * 4), 4, {}, {scores_});
}

void Routed::redispatch(std::size_t i) {
  const Chunk& c = chunks_[i];
  const Rows in = received(i, true), out = sent(i, true);
  const std::int64_t row_bytes = 2 * hidden_ * kD + kRowIndex;
  notify();
  b_->row_memory("permute retained rows", Family::router_permute, 2 * chunk_tokens() * hidden_ * kD, 2 * hidden_ * kD,
                 out, kPermute, {c.grad_send, c.kept_row_map})
      .launches = 4;
  TensorId arrived = c.grad_send;
  if (exchanged_) {
    b_->all_to_all("re-dispatch", out, row_bytes, false, {c.grad_received}, {c.grad_send}).launches = 2;
    arrived = c.grad_received;
  }
  b_->row_memory("compact by expert", Family::router_permute, 0, 4 * hidden_ * kD, in, kPermute,
                 {c.kept_input, c.grad_fc2}, {arrived})
      .launches = 2;
  b_->set_recompute(true);
  b_->grouped("expert gate-up", first_, hidden_, cost::GemmPass::forward, in, {c.kept_fc1});
  b_->row_memory("expert SwiGLU", Family::expert, 0, (first_ + ffn_) * kD + kProbability, in, kStream, {c.kept_act});
  b_->set_recompute(false);
}

void Routed::expert_backward(std::size_t i) {
  const Chunk& c = chunks_[i];
  const Rows in = received(i, retained());
  const TensorId input = sorted_ || retained() ? c.kept_input : c.received;
  if (recompute_act_ && !redispatches()) {
    b_->set_recompute(true);
    b_->row_memory("expert SwiGLU", Family::expert, 0, (first_ + ffn_) * kD + kProbability, in, kStream, {c.kept_act});
    b_->set_recompute(false);
  }
  b_->grouped("expert down dgrad", hidden_, ffn_, cost::GemmPass::dgrad, in, {c.grad_act});
  b_->grouped("expert down wgrad", hidden_, ffn_, cost::GemmPass::wgrad, in, {dummy_fc2_},
              {dummy_fc2_, c.kept_act, c.grad_fc2});
  Op& act = b_->row_memory("expert SwiGLU backward", Family::expert, 0, (2 * first_ + ffn_) * kD + 2 * kProbability, in,
                           kStream, {c.grad_fc1, c.grad_probabilities}, {c.kept_fc1, c.grad_act, c.grad_probabilities});
  if (!redispatches()) act.frees.push_back(sorted_ || retained() ? c.kept_probabilities : c.received_probabilities);
  b_->grouped("expert gate-up dgrad", first_, hidden_, cost::GemmPass::dgrad, in, {c.grad_input});
  b_->grouped("expert gate-up wgrad", first_, hidden_, cost::GemmPass::wgrad, in, {dummy_fc1_},
              {dummy_fc1_, input, c.grad_fc1});
}

void Routed::return_gradient(std::size_t i, TensorId grad_input) {
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
