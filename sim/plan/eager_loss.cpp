#include "plan/eager_loss.h"

namespace moeplan::plan {

namespace {
constexpr std::int64_t kD = Shape::kElement;
constexpr std::int64_t kWide = 4;
}  // namespace

EagerLoss::EagerLoss(Builder& builder, const Shape& shape, TensorId logits, TensorId gradient)
    : b_(&builder),
      elements_(shape.tokens * shape.vocab_rank),
      divided_(shape.tp > 1),
      logits_(logits),
      gradient_(gradient),
      fp32_(wide("logits (fp32)", true)),
      shifted_(wide("shifted logits (fp32)", divided_)),
      exponentials_(wide("exponentials of logits (fp32)", divided_)),
      log_softmax_(wide("log-softmax (fp32)", true)),
      from_loss_(wide("log-softmax gradient (fp32)", true)),
      wide_gradient_(wide("logits gradient (fp32)", true)),
      sum_(wide("log-softmax gradient and exponentials (fp32)", divided_)) {}

TensorId EagerLoss::wide(const char* name, bool present) {
  return b_->tensor(TensorKind::logits_loss, name, present ? elements_ * kWide : 0);
}

void EagerLoss::pass(const char* name, std::int64_t bytes_a_logit, int kernels, Builder::Ids allocates,
                     Builder::Ids frees) {
  b_->memory(name, Family::loss, static_cast<double>(elements_ * bytes_a_logit), kernels, allocates, frees,
             cost::MemoryAccess::loss);
}

// The caller lets go of `pred` once the loss is there, before backward.
void EagerLoss::forward() {
  b_->memory("logits to fp32", Family::loss, static_cast<double>(elements_ * (kD + kWide)), 1, {fp32_}, {});
  if (!divided_) {
    pass("cross-entropy", 3 * kWide, 2, {log_softmax_}, {fp32_, logits_});
    return;
  }
  pass("shifted logits", 3 * kWide, 2, {shifted_}, {});               // maximum, difference
  pass("exponentials of logits", 3 * kWide, 2, {exponentials_}, {});  // and their sum
  b_->last().frees.push_back(exponentials_);
  pass("cross-entropy", 2 * kWide, 3, {log_softmax_}, {shifted_, fp32_, logits_});
}

void EagerLoss::backward() {
  if (!divided_) {
    pass("cross-entropy backward", kWide, 2, {from_loss_}, {});
    pass("log-softmax backward", 3 * kWide, 1, {wide_gradient_}, {log_softmax_, from_loss_});
  } else {
    pass("cross-entropy backward", kWide, 3, {from_loss_}, {});
    pass("exponentials of log-softmax", 2 * kWide, 1, {exponentials_}, {});
    pass("log-softmax gradient and exponentials", 3 * kWide, 1, {sum_}, {exponentials_});
    pass("log-softmax backward", 2 * kWide, 1, {wide_gradient_}, {sum_, from_loss_, log_softmax_});
  }
  b_->memory("logits gradient to bf16", Family::loss, static_cast<double>(elements_ * (kWide + kD)), 1, {gradient_},
             {wide_gradient_});
}

}  // namespace moeplan::plan
