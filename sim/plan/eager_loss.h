#pragma once
#include "plan/builder.h"

namespace moeplan::plan {

// The loss as torchtitan writes it, cross_entropy(pred.float()), operator by operator in fp32, for t tokens and v of
// the vocabulary on the rank. Kept for backward: the log-softmax, 4 B a logit. Whole vocabularies (PyTorch's own
// kernels): forward holds 10 B a logit, backward 12 B. Divided over tensor-parallel ranks (loss_parallel,
// torch/distributed/tensor/parallel/loss.py): forward holds 14 B (bf16 logits, their fp32 copy, the shifted and their
// exponentials), backward 16 B (log-softmax, its gradient as zeros, the sum with the exponentials, the product).
class EagerLoss {
 public:
  // `logits`: bf16, there before forward; `gradient`: bf16, there after backward.
  EagerLoss(Builder& builder, const Shape& shape, TensorId logits, TensorId gradient);
  void forward();
  void backward();

 private:
  TensorId wide(const char* name, bool present);
  void pass(const char* name, std::int64_t bytes_a_logit, int kernels, Builder::Ids allocates, Builder::Ids frees);

  Builder* b_;
  std::int64_t elements_ = 0;
  bool divided_ = false;
  TensorId logits_, gradient_, fp32_, shifted_, exponentials_, log_softmax_, from_loss_, wide_gradient_, sum_;
};

}  // namespace moeplan::plan
