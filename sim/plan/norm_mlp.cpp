#include "plan/modules.h"

namespace moeplan::plan {

namespace {
constexpr std::int64_t kD = Shape::kElement;
}

Norm::Norm(Builder& builder, std::string name, Family family, bool feeds_linear)
    : b_(&builder),
      name_(std::move(name)),
      family_(family),
      feeds_linear_(feeds_linear),
      output_(b_->tensor(TensorKind::activations_dense, name_ + " output",
                         b_->shape().tokens_local * b_->shape().hidden * kD)),
      statistics_(b_->tensor(TensorKind::activations_dense, name_ + " statistics", b_->shape().tokens_local * 4)),
      input_(builder, name_ + " output", family, TensorKind::activations_dense, output_,
             LinearInput::fixed(b_->shape().tokens_local * b_->shape().hidden)) {}

void Norm::emit(bool with_statistics) {
  const Shape& s = b_->shape();
  const std::int64_t elements = s.tokens_local * s.hidden;
  const bool inside = feeds_linear_ && input_.cast_inside_norm();
  const auto moved = static_cast<double>(elements * (b_->passes().norm_forward - (inside ? kD : 0)));
  Op& op = b_->memory(name_, family_, moved + (inside ? input_.cast_bytes_inside() : 0), 1, {});
  if (!inside) op.allocates.push_back(output_);
  if (with_statistics) op.allocates.push_back(statistics_);
  if (inside)
    input_.cast_inside(op);
  else if (feeds_linear_)
    input_.cast(true);
}

void Norm::forward() { emit(true); }

void Norm::drop_output(Op& last_consumer) {
  if (feeds_linear_) {
    input_.drop(last_consumer);
    return;
  }
  last_consumer.frees.push_back(output_);
}
void Norm::drop_statistics(Op& op) { op.frees.push_back(statistics_); }

void Norm::recompute() {
  b_->set_recompute(true);
  emit(false);
  b_->set_recompute(false);
}

void Norm::backward(TensorId grad_output, TensorId grad_input, Builder::Ids also_frees) {
  // The residual branch's gradient is added; partial sums for the weight are small.
  const Shape& s = b_->shape();
  const Passes& passes = b_->passes();
  const std::int64_t moved = s.tokens_local * s.hidden * (passes.norm_backward + passes.residual_gradient);
  Op& op =
      b_->memory(name_ + " backward", family_, static_cast<double>(moved), 2, {grad_input}, {grad_output, statistics_});
  for (TensorId id : also_frees) op.frees.push_back(id);
}

Mlp::Mlp(Builder& builder, std::string name, std::int64_t ffn, TensorKind kind, Norm& input)
    : b_(&builder),
      input_(&input),
      name_(std::move(name)),
      width_(ffn / builder.shape().tp),
      first_(builder.shape().gates * width_),
      act_(b_->tensor(kind, name_ + " activation", b_->shape().tokens * width_ * kD)),
      grad_full_(b_->tensor(TensorKind::activations_dense, name_ + " gathered output gradient",
                            b_->shape().tokens * b_->shape().hidden * kD)),
      grad_fc1_(b_->tensor(kind, name_ + " gate-up gradient", b_->shape().tokens * first_ * kD)),
      own_input_(builder, name_ + " input", Family::dense, TensorKind::activations_dense, input.output(),
                 LinearInput::shared(b_->shape().tokens_local * b_->shape().hidden)),
      activated_(builder, name_ + " activation", Family::dense, kind, act_,
                 LinearInput::fixed(b_->shape().tokens * width_)),
      grad_output_(builder, name_ + " output gradient", Family::dense, TensorKind::activations_dense, grad_full_,
                   LinearInput::gradient(b_->shape().tokens * b_->shape().hidden)),
      grad_first_(builder, name_ + " gate-up gradient", Family::dense, kind, grad_fc1_,
                  LinearInput::gradient(b_->shape().tokens * first_)) {
  const Shape& s = b_->shape();
  const auto dense = TensorKind::activations_dense;
  gathered_ = b_->tensor(dense, name_ + " gathered input", operand_bytes(b_->scenario(), s.tokens * s.hidden));
  fc1_ = b_->tensor(kind, name_ + " gate-up output", s.tokens * first_ * kD);
  // The product of the activated gate and the other half is an operation of its own in torchtitan, and where Megatron
  // does not fuse it.
  const auto& training = b_->scenario().training;
  const bool eager =
      (training.framework == scenario::Framework::torchtitan || !training.bias_activation_fusion) && s.gates == 2;
  silu_ = b_->tensor(kind, name_ + " activated gate", eager ? s.tokens * width_ * kD : 0);
  partial_ = b_->tensor(dense, name_ + " partial output", s.tokens * s.hidden * kD);
  grad_act_ = b_->tensor(kind, name_ + " activation gradient", s.tokens * width_ * kD);
  grad_partial_ = b_->tensor(dense, name_ + " partial input gradient", s.tokens * s.hidden * kD);
}

void Mlp::forward(TensorId output, bool keep) {
  const Shape& s = b_->shape();
  const bool tp = s.tp > 1, fused = input_->feeds_linear();
  if (!fused) own_input_.cast(keep);
  if (tp)
    b_->collective(name_ + " all-gather", topology::GroupKind::tp, cost::Collective::all_gather,
                   operand_bytes(b_->scenario(), s.tokens * s.hidden), {gathered_});
  Op& up = b_->linear(name_ + " gate-up", Family::dense, {s.tokens, first_, s.hidden}, {fc1_});
  if (tp) up.frees.push_back(gathered_);
  if (fused)
    input_->consumed(up);
  else
    own_input_.consumed(up, keep);
  Op& act = b_->memory(name_ + " SwiGLU", Family::dense,
                       static_cast<double>(s.tokens * width_ * b_->passes().activation_forward), 1, {act_, silu_});
  if (!keep) act.frees.insert(act.frees.end(), {fc1_, silu_});
  activated_.cast(keep);
  Op& down = b_->linear(name_ + " down", Family::dense, {s.tokens, s.hidden, width_}, {tp ? partial_ : output});
  activated_.consumed(down, keep);
  if (tp)
    b_->collective(name_ + " reduce-scatter", topology::GroupKind::tp, cost::Collective::reduce_scatter,
                   s.tokens * s.hidden * kD, {output}, {partial_});
}

void Mlp::backward(TensorId grad_output, TensorId grad_input, bool allocates_grad) {
  const Shape& s = b_->shape();
  const bool tp = s.tp > 1, fused = input_->feeds_linear();
  if (tp)
    b_->collective(name_ + " gradient all-gather", topology::GroupKind::tp, cost::Collective::all_gather,
                   s.tokens * s.hidden * kD, {grad_full_});
  grad_output_.cast(true);
  b_->linear(name_ + " down dgrad", Family::dense, {s.tokens, width_, s.hidden, cost::GemmPass::dgrad}, {grad_act_});
  activated_.before_wgrad();
  Op& down = b_->linear(name_ + " down wgrad", Family::dense, {s.hidden, width_, s.tokens, cost::GemmPass::wgrad}, {});
  activated_.drop(down);
  if (!tp && grad_output_.reads_wide()) down.reads.push_back(grad_output);
  grad_output_.drop(down);
  if (tp) down.frees.push_back(grad_full_);
  b_->memory(name_ + " SwiGLU backward", Family::dense,
             static_cast<double>(s.tokens * width_ * b_->passes().activation_backward), 1, {grad_fc1_},
             {fc1_, silu_, grad_act_});
  grad_first_.cast(true);
  if (fused)
    input_->before_wgrad();
  else
    own_input_.before_wgrad();
  if (tp)
    b_->collective(name_ + " all-gather again", topology::GroupKind::tp, cost::Collective::all_gather,
                   operand_bytes(b_->scenario(), s.tokens * s.hidden), {gathered_})
        .weight_gradient = true;
  const bool own = allocates_grad && !tp;
  Op& dgrad =
      b_->linear(name_ + " gate-up dgrad", Family::dense, {s.tokens, s.hidden, first_, cost::GemmPass::dgrad}, {});
  dgrad.allocates.push_back(own ? grad_input : grad_partial_);
  Op& wgrad = b_->linear(name_ + " gate-up wgrad", Family::dense, {first_, s.hidden, s.tokens, cost::GemmPass::wgrad},
                         {}, {grad_fc1_});
  grad_first_.drop(wgrad);
  if (!fused) own_input_.drop(wgrad);
  if (fused) wgrad.reads.push_back(input_->kept());
  if (tp) wgrad.frees.push_back(gathered_);
  if (tp) {
    Op& reduce = b_->collective(name_ + " gradient reduce-scatter", topology::GroupKind::tp,
                                cost::Collective::reduce_scatter, s.tokens * s.hidden * kD, {}, {grad_partial_});
    if (allocates_grad) reduce.allocates.push_back(grad_input);
  } else if (!allocates_grad) {
    b_->memory(name_ + " gradient add", Family::dense, static_cast<double>(3 * s.tokens_local * s.hidden * kD), 1, {},
               {grad_partial_});
  }
}

}  // namespace moeplan::plan
