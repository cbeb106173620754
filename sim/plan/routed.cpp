#include <cmath>
#include <string>
#include <utility>

#include "base/checked.h"
#include "plan/moe.h"

namespace moeplan::plan {

namespace {
constexpr std::int64_t kD = Shape::kElement;
constexpr std::int64_t kProbability = 4;  // fp32
constexpr std::int64_t kRowIndex = 8;     // int64 position of a row
constexpr auto kMoe = TensorKind::activations_moe;
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
Rows Routed::distinct(std::size_t chunk) const {
  return Rows{Rows::Kind::distinct, false, static_cast<std::int16_t>(chunk)};
}
Rows Routed::sent(std::size_t chunk, bool backward) const {
  return Rows{Rows::Kind::sent, backward, static_cast<std::int16_t>(chunk)};
}

std::int64_t Routed::peers() const { return b_->shape().ep * b_->shape().etp; }

Routed::Routed(Builder& builder, const Treatment& treatment) : b_(&builder), treatment_(treatment) {
  const Shape& s = b_->shape();
  const auto& scenario = b_->scenario();
  const auto& dispatch = scenario.dispatch;
  recompute_act_ = scenario.recompute.granularity == scenario::RecomputeGranularity::selective &&
                   scenario.recompute.has(scenario::RecomputeModule::moe_act);
  exchanged_ = s.ep > 1;
  etp_ = s.etp > 1;
  const bool alone = !exchanged_ && !etp_;
  path_ = alone || dispatch.kind == scenario::Dispatcher::alltoall ? Path::alltoall
          : dispatch.deduplicates()                                ? Path::kernels
                                                                   : Path::allgather;
  sorted_ = path_ != Path::alltoall || (!alone && (s.local_experts > 1 || treatment.replicate));
  hybrid_ = path_ == Path::kernels && dispatch.kind == scenario::Dispatcher::hybridep;
  // Buffers of so many mean rows of a rank, which all of its expert group's tokens times top-k make.
  slots_ =
      hybrid_
          ? static_cast<std::int64_t>(std::ceil(dispatch.rank_capacity_factor *
                                                static_cast<double>(chunk_tokens() * s.etp * scenario.model.moe.top_k)))
          : 0;
  stashes_ = slots_ > 0 && dispatch.paged_stash && treatment.backward == policy::RoutedBackward::kept;
  ffn_ = scenario.model.moe.ffn / s.etp;
  first_ = s.gates * ffn_;
  hidden_ = s.hidden;
  const bool eager = scenario.training.framework == scenario::Framework::megatron && !dispatch.op_fuser;
  biased_ = eager && scenario.model.moe.expert_bias;
  clamped_ = eager && scenario.model.activation_clamp > 0 && s.gates == 2 && !retained();
  pipelined_ = exchanged_ && treatment.chunks > 1 && scenario.policies.memfine && scenario.policies.memfine->pipelined;
  for (std::size_t i = 0; i < static_cast<std::size_t>(treatment.chunks); ++i) chunks_.push_back(make_chunk(i));
  scores_ = b_->tensor(kMoe, "selection scores", s.tokens_local * scenario.model.moe.top_k * 4);
  make_instance_tensors();
}

Size Routed::row_size(std::int64_t bytes, Rows rows) const {
  return slotted(rows) ? Size{bytes * slots_, 0, {}} : Size{0, bytes, rows};
}

TensorId Routed::row_tensor(TensorKind kind, std::string name, std::int64_t bytes, Rows rows) {
  return b_->sized_tensor(kind, std::move(name), row_size(bytes, rows));
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
  parts_.clear();
  for (std::size_t i = 0; i < chunks_.size(); ++i)
    forward_chunk(i, chunks_.size() > 1 ? chunks_[i].output : output, keep);
  if (pipelined_) pipeline_chunks(b_->ops(), parts_);
  if (chunks_.size() > 1) concatenate(output, false);
  if (treatment_.replicate && !keep) b_->last().frees.push_back(hosted_weights_);
}

void Routed::concatenate(TensorId whole, bool gradient) {
  Op& op = b_->memory(gradient ? "concatenate chunk gradients" : "concatenate chunks", Family::router_permute,
                      static_cast<double>(2 * b_->shape().tokens_local * hidden_ * kD), 1, {whole});
  for (const Chunk& c : chunks_) op.frees.push_back(gradient ? c.grad_output : c.output);
}

void Routed::dispatch(std::size_t i, bool selects) {
  switch (path_) {
    case Path::alltoall:
      return dispatch_alltoall(i, selects);
    case Path::allgather:
      return dispatch_allgather(i);
    case Path::kernels:
      return dispatch_kernels(i);
  }
}

void Routed::combine(std::size_t i, TensorId output, bool keep, bool selects) {
  const bool drop = !keep || selects;
  switch (path_) {
    case Path::alltoall:
      return combine_alltoall(i, output, drop);
    case Path::allgather:
      return combine_allgather(i, output, drop);
    case Path::kernels:
      return combine_kernels(i, output, drop);
  }
}

void Routed::dispatch_gradient(std::size_t i) {
  switch (path_) {
    case Path::alltoall:
      return dispatch_gradient_alltoall(i);
    case Path::allgather:
      return dispatch_gradient_allgather(i);
    case Path::kernels:
      return dispatch_gradient_kernels(i);
  }
}

void Routed::return_gradient(std::size_t i, TensorId grad_input) {
  switch (path_) {
    case Path::alltoall:
      return return_gradient_alltoall(i, grad_input);
    case Path::allgather:
      return return_gradient_allgather(i, grad_input);
    case Path::kernels:
      return return_gradient_kernels(i, grad_input);
  }
}

void Routed::forward_chunk(std::size_t i, TensorId output, bool keep) {
  const bool selects = keep && keeps_retained();
  const auto emitted = [this] { return b_->ops().size(); };
  ChunkParts parts;
  parts.dispatch = emitted();
  dispatch(i, selects);
  parts.experts = emitted();
  experts(i, keep);
  parts.combine = emitted();
  combine(i, output, keep, selects);
  parts.rest = parts.end = emitted();
  parts_.push_back(parts);
}

void Routed::experts(std::size_t i, bool keep) {
  Chunk& c = chunks_[i];
  LinearInput &rows = operand(c, Operand::input), &activated = operand(c, Operand::act);
  const Rows in = received(i, false);
  const bool selects = keep && keeps_retained(), stashes = keep && stashes_;
  const TensorId input = sorted_ ? c.input : c.received;
  const TensorId probabilities = sorted_ ? c.probabilities : c.received_probabilities;
  rows.cast(keep);
  Op& fc1 = b_->grouped("expert gate-up", first_, hidden_, cost::GemmPass::forward, in, {c.fc1});
  rows.consumed(fc1, keep);
  if (selects) {
    keep_retained("keep retained inputs", hidden_ * kD, i, {c.kept_input}, {input});
    if (sorted_) b_->last().allocates.push_back(c.kept_sort_map);
  }
  if (stashes) stash(i, "stash expert input", c.stash_input, rows.kept(), rows.kept_size().bytes_per_row);
  if (clamped_) clamp(i);
  Op& act = b_->row_memory("expert SwiGLU", Family::expert, 0, ffn_ * b_->passes().activation_forward + kProbability,
                           in, kStream, {c.act});
  if (clamped_ && (!keep || recompute_act_)) act.frees.push_back(c.clamped);
  if (!retained()) act.allocates.push_back(c.silu);
  if (!keep) act.frees.insert(act.frees.end(), {c.fc1, probabilities});
  // moe_act runs all of the activation again.
  if ((!keep || recompute_act_) && !retained()) act.frees.push_back(c.silu);
  if (selects)
    keep_retained("keep retained gate-up outputs", first_ * kD + kProbability, i, {c.kept_fc1, c.kept_probabilities},
                  {c.fc1, probabilities});
  if (stashes) {
    stash(i, "stash gate-up output", c.stash_fc1, c.fc1, first_ * kD + kProbability);
    b_->last().allocates.push_back(c.stash_probabilities);
    b_->last().frees.push_back(probabilities);
  }
  const bool keeps_act = keep && !recompute_act_;
  activated.cast(keeps_act);
  Op& fc2 = b_->grouped("expert down", hidden_, ffn_, cost::GemmPass::forward, in, {c.fc2});
  activated.consumed(fc2, keeps_act);
  if (biased_) add_bias(i, false);
  if (selects && !recompute_act_) keep_retained("keep retained activations", ffn_ * kD, i, {c.kept_act}, {c.act});
  if (stashes && keeps_act)
    stash(i, "stash expert activation", c.stash_act, activated.kept(), activated.kept_size().bytes_per_row);
}

// Both halves are clamped, each into a tensor, and put together again: the activation reads and saves that copy, the
// clamp saves what it read.
void Routed::clamp(std::size_t i) {
  b_->row_memory("expert clamp", Family::expert, 0, 4 * first_ * kD, received(i, false), kStream, {chunks_[i].clamped})
      .launches = 3;
}

// Gradients of the halves are masked by what was read, and put together.
void Routed::clamp_backward(std::size_t i) {
  Chunk& c = chunks_[i];
  b_->row_memory("expert clamp backward", Family::expert, 0, 5 * first_ * kD, received(i, false), kStream, {c.grad_fc1},
                 {c.grad_clamped, c.fc1})
      .launches = 3;
}

// For each expert the bias times the rows' probabilities (fp32) is added to the output; the sums are concatenated and
// cast back. 4 written; 2 + 4 read, 4 written; 4 and 4; 4 read, 2 written. Backward: cast (2, 4), the rows' share (4,
// 2), two products with the gradient (4, 4 each) and their sums (4 each, and 4 to read the first again).
void Routed::add_bias(std::size_t i, bool backward) {
  constexpr std::int64_t kForwardBytes = 4 + 10 + 8 + 6, kBackwardBytes = 6 + 6 + 16 + 8;
  const auto experts = static_cast<int>(b_->shape().local_experts);
  const TensorId sums = chunks_[i].biased;
  Op& op = b_->row_memory(backward ? "expert bias backward" : "expert bias", Family::expert, 0,
                          (backward ? kBackwardBytes : kForwardBytes) * hidden_, received(i, backward && retained()),
                          kStream, {sums}, {sums});
  op.launches = static_cast<std::uint16_t>(backward ? 5 * experts + 1 : 3 * experts + 2);
}

// Rows that are there move from the static buffer to pages.
void Routed::stash(std::size_t i, const char* name, TensorId paged, TensorId whole, std::int64_t bytes) {
  b_->row_memory(name, Family::router_permute, 0, 2 * bytes, received(i, false), kStream, {paged}, {whole});
}

void Routed::restore(std::size_t i) {
  Chunk& c = chunks_[i];
  const LinearInput &rows = operand(c, Operand::input), &activated = operand(c, Operand::act);
  std::int64_t bytes = rows.kept_size().bytes_per_row + first_ * kD + kProbability;
  if (!recompute_act_) bytes += activated.kept_size().bytes_per_row;
  Op& op = b_->row_memory("restore stashed rows", Family::router_permute, 0, 2 * bytes, received(i, false), kStream,
                          {rows.kept(), c.fc1, c.probabilities}, {c.stash_input, c.stash_fc1, c.stash_probabilities});
  op.launches = 4;
  if (recompute_act_) return;
  op.allocates.push_back(activated.kept());
  op.frees.push_back(c.stash_act);
}

void Routed::backward(TensorId grad_input) {
  if (treatment_.select && !keeps_retained()) select();
  if (treatment_.replicate) {
    if (!holds_activations(treatment_.backward)) place_experts();  // forward dropped them with the rest
    start_expert_gradients();
  }
  parts_.clear();
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
    if (!parts_.empty()) parts_.back().end = b_->ops().size();
  }
  if (pipelined_ && !parts_.empty()) pipeline_chunks(b_->ops(), parts_);  // the forwards that run again
  if (chunks_.size() > 1) concatenate(grad_input, true);
  if (treatment_.replicate) return_expert_gradients();
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
  Chunk& c = chunks_[i];
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
  LinearInput& rows = operand(c, Operand::kept_input);
  rows.cast(true);
  rows.consumed(b_->grouped("expert gate-up", first_, hidden_, cost::GemmPass::forward, in, {c.kept_fc1}), true);
  b_->row_memory("expert SwiGLU", Family::expert, 0, ffn_ * b_->passes().activation_forward + kProbability, in, kStream,
                 {c.kept_act});
  b_->set_recompute(false);
}

void Routed::expert_backward(std::size_t i) {
  Chunk& c = chunks_[i];
  const Rows in = received(i, retained());
  if (stashes_) restore(i);
  LinearInput& rows = operand(c, retained() ? Operand::kept_input : Operand::input);
  LinearInput& activated = operand(c, retained() ? Operand::kept_act : Operand::act);
  LinearInput &grad_output = operand(c, Operand::grad_fc2), &grad_first = operand(c, Operand::grad_fc1);
  if (recompute_act_ && !redispatches()) {
    b_->set_recompute(true);
    if (clamped_) clamp(i);
    Op& act = b_->row_memory("expert SwiGLU", Family::expert, 0, ffn_ * b_->passes().activation_forward + kProbability,
                             in, kStream, {c.kept_act});
    if (!retained()) act.allocates.push_back(c.silu);
    b_->set_recompute(false);
  }
  if (biased_) add_bias(i, true);
  grad_output.cast(true);
  b_->grouped("expert down dgrad", hidden_, ffn_, cost::GemmPass::dgrad, in, {c.grad_act});
  activated.before_wgrad();
  Op& down = b_->grouped("expert down wgrad", hidden_, ffn_, cost::GemmPass::wgrad, in, {}, {c.grad_fc2});
  activated.drop(down);
  grad_output.drop(down);
  Op& act = b_->row_memory("expert SwiGLU backward", Family::expert, 0,
                           ffn_ * b_->passes().activation_backward + 2 * kProbability, in, kStream,
                           {clamped_ ? c.grad_clamped : c.grad_fc1, c.grad_probabilities},
                           {clamped_ ? c.clamped : c.kept_fc1, c.grad_act, c.grad_probabilities});
  if (!retained()) act.frees.push_back(c.silu);
  if (!redispatches()) act.frees.push_back(sorted_ || retained() ? c.kept_probabilities : c.received_probabilities);
  if (clamped_) clamp_backward(i);
  grad_first.cast(true);
  b_->grouped("expert gate-up dgrad", first_, hidden_, cost::GemmPass::dgrad, in, {c.grad_input});
  rows.before_wgrad();
  Op& up = b_->grouped("expert gate-up wgrad", first_, hidden_, cost::GemmPass::wgrad, in, {}, {c.grad_fc1});
  rows.drop(up);
  grad_first.drop(up);
}

}  // namespace moeplan::plan
