#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "plan/builder.h"
#include "plan/linear_input.h"

// The modules of a transformer layer as emitters of ops. Each knows what it keeps for backward and what dies at once.
// keep = false is a forward without gradients (checkpointed): a tensor dies as soon as it was consumed.
// Tensors and their order follow Megatron-Core with Transformer Engine, bf16, FlashAttention, sequence parallelism when
// tp > 1 (docs/models.md, Saved tensors).
namespace moeplan::plan {

// RMS norm of [tokens_local, hidden]; the output is the next linear's input.
class Norm {
 public:
  // feeds_linear: one linear layer alone reads the output, which is kept as that layer's input is.
  Norm(Builder& builder, std::string name, Family family, bool feeds_linear);
  void forward();  // allocates output and statistics
  TensorId output() const { return output_; }
  bool feeds_linear() const { return feeds_linear_; }
  // The linear layer's product of forward ran (feeds_linear).
  void consumed(Op& product) { input_.consumed(product, true); }
  void before_wgrad() { input_.before_wgrad(); }
  TensorId kept() const { return feeds_linear_ ? input_.kept() : output_; }  // what the weight gradient reads
  void drop_output(Op& last_consumer);  // the op that is the last to read the output in a phase frees it
  void drop_statistics(Op& op);
  void recompute();  // output again, statistics are kept
  // grad_output -> grad_input; frees grad_output, the output's statistics and what `also_frees` names.
  void backward(TensorId grad_output, TensorId grad_input, Builder::Ids also_frees);

 private:
  void emit(bool with_statistics);
  Builder* b_;
  std::string name_;
  Family family_;
  bool feeds_linear_;
  TensorId output_, statistics_;
  LinearInput input_;  // of the linear layer behind it
};

// SwiGLU MLP of width ffn / tp over all tokens: dense layers and shared experts.
class Mlp {
 public:
  // input: the norm in front; where others read its output too, the MLP casts for itself.
  Mlp(Builder& builder, std::string name, std::int64_t ffn, TensorKind kind, Norm& input);
  void forward(TensorId output, bool keep);
  // Adds to grad_input, from grad_output, the layer's output gradient, which the caller owns (grad_input is allocated
  // here when `allocates_grad`); frees what forward kept.
  void backward(TensorId grad_output, TensorId grad_input, bool allocates_grad);

 private:
  Builder* b_;
  Norm* input_;
  std::string name_;
  std::int64_t width_, first_;  // second matrix's input, first matrix's output (twice that with a gate)
  TensorId gathered_, fc1_, silu_, act_, partial_, grad_full_, grad_act_, grad_fc1_, grad_partial_;
  LinearInput own_input_, activated_, grad_output_, grad_first_;
};

// Self-attention from the normed input to the residual sum x_mid.
class Attention {
 public:
  // window: positions a query sees, 0 for all before it.
  Attention(Builder& builder, std::int64_t window, Norm& norm);
  void forward(TensorId x_mid, Norm& norm, bool keep);
  // Consumes grad_mid (gradient of x_mid), produces grad_in; frees x_in and all that forward kept.
  void backward(TensorId x_in, TensorId grad_mid, TensorId grad_in, Norm& norm);

 private:
  void project(Norm& norm, bool keep);  // normed input -> q, k, v
  void up_project(bool keep);           // mla: latents -> q, k, v
  void attend(bool keep_statistics);
  double attention_s(bool backward) const;
  double rotated_apart() const;
  std::int64_t gathered_kv_bytes() const;  // keys and values of the whole sequence, context parallelism
  void backward_projections_gqa(Norm& norm, TensorId grad_norm);
  void backward_projections_mla(Norm& norm, TensorId grad_norm);
  bool mla() const;
  Builder* b_;
  std::int64_t window_;
  bool recompute_core_, recompute_up_, recompute_norm_;
  TensorId gathered_, qkv_, qk_normed_input_, qk_statistics_, q_, k_, v_, q_latent_, q_latent_normed_, kv_latent_,
      kv_latent_normed_, latents_gathered_, q_up_, kv_up_;
  TensorId out_, statistics_, scores_, grad_scores_, partial_, reduced_;
  TensorId grad_full_, grad_out_, grad_q_, grad_k_, grad_v_, workspace_, kv_gathered_, grad_kv_gathered_, grad_qkv_,
      grad_up_, grad_latents_, grad_partial_;
  bool narrow_saved_;                                                   // copies are kept in place of bf16 inputs
  std::optional<LinearInput> projected_, grad_projected_, grad_joint_;  // output projection; qkv or up-projections
  std::optional<LinearInput> query_input_, latent_input_;               // mla: down-projections (or query projection)
  std::optional<LinearInput> query_latent_, key_value_latent_, grad_latent_;  // mla: up-projections; down-projections
};

}  // namespace moeplan::plan
