#include <algorithm>

#include "plan/modules.h"

namespace moeplan::plan {

namespace {
constexpr std::int64_t kD = Shape::kElement;
constexpr auto kDense = TensorKind::activations_dense;
constexpr auto kTp = topology::GroupKind::tp;
double bytes(std::int64_t elements) { return static_cast<double>(elements * kD); }
double moved(std::int64_t elements, std::int64_t bytes_each) { return static_cast<double>(elements * bytes_each); }
}  // namespace

bool Attention::mla() const { return b_->scenario().model.attention.kind == model::AttentionKind::mla; }

Attention::Attention(Builder& builder, std::int64_t window, Norm& norm) : b_(&builder), window_(window) {
  const Shape& s = b_->shape();
  const auto& a = b_->scenario().model.attention;
  const auto& recompute = b_->scenario().recompute;
  const bool selective = recompute.granularity == scenario::RecomputeGranularity::selective;
  recompute_core_ = selective && recompute.has(scenario::RecomputeModule::core_attn);
  recompute_up_ = selective && mla() && recompute.has(scenario::RecomputeModule::mla_up_proj);
  recompute_norm_ = selective && recompute.has(scenario::RecomputeModule::layernorm);

  const std::int64_t t = s.tokens, tl = s.tokens_local, heads = s.heads_rank;
  const std::int64_t q_width = heads * a.qk_dim(), v_width = heads * a.v_dim();
  const std::int64_t k_width = (mla() ? heads : s.kv_heads_rank) * a.qk_dim();
  const std::int64_t qkv_width = q_width + 2 * k_width;  // gqa
  const std::int64_t latent_width = a.kv_lora_rank + a.qk_rope_dim;
  auto dense = [&](const char* name, std::int64_t elements) { return b_->tensor(kDense, name, elements * kD); };
  gathered_ = b_->tensor(kDense, "attention gathered input", operand_bytes(b_->scenario(), t * s.hidden));
  qkv_ = dense("qkv", mla() ? 0 : t * qkv_width);
  // The norms over query and key heads keep contiguous copies of their inputs (the value stays a view of qkv).
  const bool qk_norm = !mla() && a.qk_norm;
  qk_normed_input_ = dense("query and key before their norm", qk_norm ? t * (q_width + k_width) : 0);
  qk_statistics_ = b_->tensor(kDense, "query-key norm statistics", qk_norm ? t * (heads + s.kv_heads_rank) * 4 : 0);
  q_ = dense("query", t * q_width);
  k_ = dense("key", t * k_width);
  // Attention kernels take contiguous operands: the value is copied out of qkv, which goes.
  v_ = dense("value", t * (mla() ? v_width : k_width));
  q_latent_ = dense("query latent", tl * a.q_lora_rank);
  q_latent_normed_ = dense("query latent, normed", tl * a.q_lora_rank);
  kv_latent_ = dense("key-value latent", tl * latent_width);
  kv_latent_normed_ = dense("key-value latent, normed", tl * a.kv_lora_rank);
  latents_gathered_ = dense("latents gathered", t * (a.q_lora_rank + latent_width));
  q_up_ = dense("query up-projection", t * q_width);
  kv_up_ = dense("key-value up-projection", t * heads * (a.qk_nope_dim + a.v_head_dim));
  out_ = dense("attention output", t * v_width);
  // Unfused, the probabilities of all pairs are kept, and with dropout their mask and what it leaves.
  const auto& training = b_->scenario().training;
  const std::int64_t pairs = training.unfused_attention ? heads * t * training.seq_length : 0;
  statistics_ = b_->tensor(kDense, training.unfused_attention ? "attention probabilities" : "attention log-sum-exp",
                           pairs > 0 ? pairs * (training.attention_dropout > 0 ? 2 * kD + 1 : kD) : t * heads * 4);
  scores_ = dense("attention scores", pairs);
  grad_scores_ = dense("attention score gradients", 2 * pairs);
  partial_ = dense("attention projection partial", t * s.hidden);
  reduced_ = dense("attention projection", tl * s.hidden);
  grad_full_ = dense("attention gathered gradient", t * s.hidden);
  grad_out_ = dense("attention output gradient", t * v_width);
  grad_q_ = dense("query gradient", t * q_width);
  grad_k_ = dense("key gradient", t * k_width);
  grad_v_ = dense("value gradient", t * (mla() ? v_width : k_width));
  // FlashAttention backward accumulates the query gradient in fp32 and keeps row sums of out * grad_out.
  workspace_ = b_->tensor(TensorKind::workspace, "attention backward workspace",
                          training.unfused_attention ? 0 : t * q_width * 4 + t * heads * 4);
  kv_gathered_ = b_->tensor(TensorKind::communication, "keys and values gathered", s.cp > 1 ? gathered_kv_bytes() : 0);
  grad_kv_gathered_ =
      b_->tensor(TensorKind::communication, "key and value gradients gathered", s.cp > 1 ? gathered_kv_bytes() : 0);
  grad_qkv_ = dense("qkv gradient", mla() ? 0 : t * qkv_width);
  grad_up_ = dense("up-projection gradients", mla() ? t * (q_width + heads * (a.qk_nope_dim + a.v_head_dim)) : 0);
  grad_latents_ = dense("latent gradients", t * (a.q_lora_rank + latent_width));
  grad_partial_ = dense("attention input gradient partial", t * s.hidden);

  const OperandFormat format = operand_format(b_->scenario());
  narrow_saved_ = format.narrow && format.saved;
  const auto linear = [&](std::optional<LinearInput>& slot, const char* name, TensorId wide,
                          const LinearInput::Form& form) {
    slot.emplace(*b_, name, Family::attention, kDense, wide, form);
  };
  linear(projected_, "attention output", out_, LinearInput::shared(t * v_width));
  linear(grad_projected_, "attention projection gradient", grad_full_, LinearInput::gradient(t * s.hidden));
  const std::int64_t up_width = q_width + heads * (a.qk_nope_dim + a.v_head_dim);
  linear(grad_joint_, mla() ? "up-projection gradients" : "qkv gradient", mla() ? grad_up_ : grad_qkv_,
         LinearInput::gradient(t * (mla() ? up_width : qkv_width)));
  linear(query_input_, "query projection input", norm.output(), LinearInput::shared(tl * s.hidden));
  linear(latent_input_, "key-value projection input", norm.output(), LinearInput::shared(tl * s.hidden));
  linear(query_latent_, "query latent, normed", q_latent_normed_, LinearInput::fixed(tl * a.q_lora_rank));
  linear(key_value_latent_, "key-value latent, normed", kv_latent_normed_, LinearInput::fixed(tl * a.kv_lora_rank));
  linear(grad_latent_, "latent gradients", grad_latents_, LinearInput::gradient(tl * (a.q_lora_rank + latent_width)));
}

void Attention::forward(TensorId x_mid, Norm& norm, bool keep) {
  const Shape& s = b_->shape();
  const auto& a = b_->scenario().model.attention;
  const bool tp = s.tp > 1;
  project(norm, keep);
  attend(keep && !recompute_core_);
  Op& core = b_->last();
  if (!keep || recompute_up_) {
    core.frees.insert(core.frees.end(), {q_, k_, v_});
  }
  const std::int64_t v_width = s.heads_rank * a.v_dim();
  projected_->cast(keep);
  Op& proj =
      b_->linear("attention projection", Family::attention, {s.tokens, s.hidden, v_width}, {tp ? partial_ : reduced_});
  projected_->consumed(proj, keep);
  // What is recomputed needs no bf16 output where the projection keeps a copy of its own.
  if (!keep || (narrow_saved_ && recompute_core_)) proj.frees.push_back(out_);
  if (tp)
    b_->collective("attention reduce-scatter", kTp, cost::Collective::reduce_scatter, s.tokens * s.hidden * kD,
                   {reduced_}, {partial_});
  b_->memory("attention residual add", Family::attention, bytes(3 * s.tokens_local * s.hidden), 1, {x_mid}, {reduced_});
}

void Attention::project(Norm& norm, bool keep) {
  const Shape& s = b_->shape();
  const auto& a = b_->scenario().model.attention;
  const bool tp = s.tp > 1;
  const std::int64_t t = s.tokens, tl = s.tokens_local;
  const bool drop_norm = !keep || recompute_norm_;
  // The projections keep copies of the norm's output, each its own; nobody reads it any more.
  const bool drop_norm_mla = drop_norm || narrow_saved_, keep_input = keep && !recompute_norm_;
  if (!mla()) {
    const std::int64_t width = (s.heads_rank + 2 * s.kv_heads_rank) * a.head_dim;
    if (tp)
      b_->collective("attention all-gather", kTp, cost::Collective::all_gather,
                     operand_bytes(b_->scenario(), t * s.hidden), {gathered_});
    Op& gemm = b_->linear("qkv projection", Family::attention, {t, width, s.hidden}, {qkv_});
    if (tp) gemm.frees.push_back(gathered_);
    norm.consumed(gemm);
    if (drop_norm) norm.drop_output(gemm);
    if (!keep) norm.drop_statistics(gemm);
    const std::int64_t rotated = t * (s.heads_rank + s.kv_heads_rank) * a.head_dim;
    if (a.qk_norm)
      b_->memory("query-key norm", Family::attention, moved(rotated, kD + b_->passes().norm_forward), 4,
                 {qk_normed_input_, qk_statistics_});
    const std::int64_t value = t * s.kv_heads_rank * a.head_dim;
    Op& rotate = b_->memory("rotary embedding", Family::attention,
                            bytes(2 * value) + moved(rotated, b_->passes().rotary), 3, {q_, k_, v_}, {qkv_});
    if (a.qk_norm && !keep) rotate.frees.insert(rotate.frees.end(), {qk_normed_input_, qk_statistics_});
    return;
  }
  if (a.q_lora_rank > 0) {
    query_input_->cast(keep_input);
    query_input_->consumed(
        b_->linear("query down-projection", Family::attention, {tl, a.q_lora_rank, s.hidden}, {q_latent_}), keep_input);
    b_->memory("query latent norm", Family::attention, moved(tl * a.q_lora_rank, b_->passes().norm_forward), 1,
               {q_latent_normed_});
    query_latent_->cast(keep);
  }
  latent_input_->cast(keep_input);
  Op& down = b_->linear("key-value down-projection", Family::attention, {tl, a.kv_lora_rank + a.qk_rope_dim, s.hidden},
                        {kv_latent_});
  latent_input_->consumed(down, keep_input);
  if (a.q_lora_rank > 0) {
    if (drop_norm_mla) norm.drop_output(down);
    if (!keep) norm.drop_statistics(down);
  }
  b_->memory("key-value latent norm", Family::attention, moved(tl * a.kv_lora_rank, b_->passes().norm_forward), 1,
             {kv_latent_normed_});
  key_value_latent_->cast(keep);
  if (a.q_lora_rank == 0) query_input_->cast(keep_input);
  up_project(keep);
  Op& last = b_->last();
  if (a.q_lora_rank == 0) {
    if (drop_norm_mla) norm.drop_output(last);
    if (!keep) norm.drop_statistics(last);
  }
  if (!keep) {
    if (a.q_lora_rank > 0) {
      last.frees.push_back(q_latent_);
      query_latent_->drop(last);
    }
    last.frees.push_back(kv_latent_);
    key_value_latent_->drop(last);
  }
}

void Attention::up_project(bool keep) {
  const Shape& s = b_->shape();
  const auto& a = b_->scenario().model.attention;
  const bool tp = s.tp > 1;
  const std::int64_t t = s.tokens, q_width = s.heads_rank * a.qk_dim();
  const std::int64_t q_in = a.q_lora_rank > 0 ? a.q_lora_rank : s.hidden;
  if (tp) {
    b_->collective("latent all-gather", kTp, cost::Collective::all_gather,
                   t * (a.q_lora_rank + a.kv_lora_rank + a.qk_rope_dim) * kD, {latents_gathered_});
    if (a.q_lora_rank == 0)
      b_->collective("attention all-gather", kTp, cost::Collective::all_gather, t * s.hidden * kD, {gathered_});
  }
  Op& up = b_->linear("query up-projection", Family::attention, {t, q_width, q_in}, {q_up_});
  if (a.q_lora_rank > 0)
    query_latent_->consumed(up, true);
  else
    query_input_->consumed(up, keep && !recompute_norm_);
  if (tp && a.q_lora_rank == 0) up.frees.push_back(gathered_);
  Op& kv = b_->linear("key-value up-projection", Family::attention,
                      {t, s.heads_rank * (a.qk_nope_dim + a.v_head_dim), a.kv_lora_rank}, {kv_up_});
  key_value_latent_->consumed(kv, true);
  if (tp) kv.frees.push_back(latents_gathered_);
  const std::int64_t joined = t * s.heads_rank * (2 * a.qk_dim() + a.v_head_dim);
  b_->memory("rotary embedding and concatenation", Family::attention, bytes(2 * joined) + rotated_apart(), 4,
             {q_, k_, v_}, {q_up_, kv_up_});
}

// What rotating queries and the one rotary key of latent attention moves beyond the copies into one tensor.
double Attention::rotated_apart() const {
  const Shape& s = b_->shape();
  const std::int64_t rotated = s.tokens * (s.heads_rank + 1) * b_->scenario().model.attention.qk_rope_dim;
  return moved(rotated, b_->passes().rotary - Passes{}.rotary);
}

std::int64_t Attention::gathered_kv_bytes() const {
  const Shape& s = b_->shape();
  const auto& a = b_->scenario().model.attention;
  const std::int64_t heads = mla() ? s.heads_rank : s.kv_heads_rank;
  return s.tokens * s.cp * heads * (a.qk_dim() + a.v_dim()) * kD;
}

// With context parallelism a rank has 1/cp of the queries against the whole sequence; causal work is dealt evenly (two
// slices a rank).
double Attention::attention_s(bool backward) const {
  const Shape& s = b_->shape();
  const auto& a = b_->scenario().model.attention;
  const auto& training = b_->scenario().training;
  const auto& profile = b_->scenario().hardware;
  const cost::AttentionShape shape{training.micro_batch_size, s.heads_rank, training.seq_length, a.qk_dim(), a.v_dim()};
  double share = 1.0 / static_cast<double>(s.cp);
  if (window_ > 0 && window_ < training.seq_length) {
    // Pairs of a causal window over pairs of the whole triangle: (s w - w^2 / 2) / (s^2 / 2).
    const double w = static_cast<double>(window_) / static_cast<double>(training.seq_length);
    share *= 2 * w - w * w;
  }
  const double whole =
      backward ? cost::attention_backward_time_s(shape, profile) : cost::attention_forward_time_s(shape, profile);
  double seconds = std::max(whole * share, profile.gemm.launch.value);
  if (training.unfused_attention) {
    // Scores and probabilities are written and read by the softmax and both products; no pair is spared.
    const double pairs = static_cast<double>(s.heads_rank * s.tokens) * static_cast<double>(training.seq_length);
    seconds = 2 * seconds +
              cost::memory_bound_time_s((backward ? 8 : 4) * kD * pairs, cost::MemoryAccess::streaming, profile);
  }
  return seconds;
}

void Attention::attend(bool keep_statistics) {
  const bool cp = b_->shape().cp > 1;
  if (cp)
    b_->collective("gather keys and values", topology::GroupKind::cp, cost::Collective::all_gather, gathered_kv_bytes(),
                   {kv_gathered_});
  const bool unfused = b_->scenario().training.unfused_attention;
  Op& op = b_->fixed("core attention", Family::attention, attention_s(false), unfused ? 4 : 1,
                     {out_, statistics_, scores_}, {scores_});
  op.product = true;
  if (cp) op.frees.push_back(kv_gathered_);
  if (!keep_statistics) op.frees.push_back(statistics_);
}

void Attention::backward(TensorId x_in, TensorId grad_mid, TensorId grad_in, Norm& norm) {
  const Shape& s = b_->shape();
  const auto& a = b_->scenario().model.attention;
  const bool tp = s.tp > 1;
  const std::int64_t t = s.tokens, v_width = s.heads_rank * a.v_dim();
  if (tp)
    b_->collective("attention gradient all-gather", kTp, cost::Collective::all_gather, t * s.hidden * kD, {grad_full_});
  grad_projected_->cast(true);
  b_->linear("attention projection dgrad", Family::attention, {t, v_width, s.hidden, cost::GemmPass::dgrad},
             {grad_out_});
  projected_->before_wgrad();
  Op& wgrad =
      b_->linear("attention projection wgrad", Family::attention, {s.hidden, v_width, t, cost::GemmPass::wgrad}, {});
  projected_->drop(wgrad);
  if (!tp && grad_projected_->reads_wide()) wgrad.reads.push_back(grad_mid);
  grad_projected_->drop(wgrad);
  if (tp) wgrad.frees.push_back(grad_full_);
  // Without a query latent the up-projections read the normed input itself.
  const bool norm_first = recompute_norm_ && recompute_up_ && a.q_lora_rank == 0;
  if (norm_first) norm.recompute();
  b_->set_recompute(true);
  if (recompute_up_) up_project(true);
  if (recompute_core_) {
    b_->fixed("core attention", Family::attention, attention_s(false), 1, {statistics_}).product = true;
    if (narrow_saved_) b_->last().allocates.push_back(out_);
  }
  b_->set_recompute(false);
  const bool cp = s.cp > 1;
  if (cp)
    b_->collective("gather keys and values again", topology::GroupKind::cp, cost::Collective::all_gather,
                   gathered_kv_bytes(), {kv_gathered_});
  b_->fixed("core attention backward", Family::attention, attention_s(true), 3,
            {grad_q_, grad_k_, grad_v_, workspace_, grad_scores_},
            {grad_scores_, workspace_, grad_out_, out_, statistics_, q_, k_, v_})
      .product = true;
  if (cp) {
    b_->last().allocates.push_back(grad_kv_gathered_);
    b_->last().frees.push_back(kv_gathered_);
    b_->collective("reduce key and value gradients", topology::GroupKind::cp, cost::Collective::reduce_scatter,
                   gathered_kv_bytes(), {}, {grad_kv_gathered_});
  }
  if (recompute_norm_ && !norm_first) norm.recompute();
  // The gradient of the normed input: summed over tp ranks by a reduce-scatter, so a rank holds it once whole, once as
  // its slice.
  if (mla())
    backward_projections_mla(norm, reduced_);
  else
    backward_projections_gqa(norm, reduced_);
  norm.backward(reduced_, grad_in, {x_in, grad_mid});
}

void Attention::backward_projections_gqa(Norm& norm, TensorId grad_norm) {
  const Shape& s = b_->shape();
  const auto& a = b_->scenario().model.attention;
  const bool tp = s.tp > 1;
  const std::int64_t t = s.tokens, width = (s.heads_rank + 2 * s.kv_heads_rank) * a.head_dim;
  const std::int64_t rotated = t * (s.heads_rank + s.kv_heads_rank) * a.head_dim;
  b_->memory("rotary embedding backward", Family::attention,
             bytes(2 * (t * width - rotated)) + moved(rotated, b_->passes().rotary), 3, {grad_qkv_},
             {grad_q_, grad_k_, grad_v_});
  if (a.qk_norm)
    b_->memory("query-key norm backward", Family::attention, moved(rotated, b_->passes().norm_backward), 4, {},
               {qk_normed_input_, qk_statistics_});
  grad_joint_->cast(true);
  norm.before_wgrad();
  if (tp)
    b_->collective("attention all-gather again", kTp, cost::Collective::all_gather,
                   operand_bytes(b_->scenario(), t * s.hidden), {gathered_})
        .weight_gradient = true;
  b_->linear("qkv projection dgrad", Family::attention, {t, s.hidden, width, cost::GemmPass::dgrad},
             {tp ? grad_partial_ : grad_norm});
  Op& wgrad = b_->linear("qkv projection wgrad", Family::attention, {width, s.hidden, t, cost::GemmPass::wgrad}, {},
                         {grad_qkv_});
  grad_joint_->drop(wgrad);
  norm.drop_output(wgrad);
  if (tp) {
    wgrad.frees.push_back(gathered_);
    b_->collective("attention gradient reduce-scatter", kTp, cost::Collective::reduce_scatter, t * s.hidden * kD,
                   {grad_norm}, {grad_partial_});
  }
}

void Attention::backward_projections_mla(Norm& norm, TensorId grad_norm) {
  const Shape& s = b_->shape();
  const auto& a = b_->scenario().model.attention;
  const bool tp = s.tp > 1;
  const std::int64_t t = s.tokens, tl = s.tokens_local;
  const std::int64_t q_width = s.heads_rank * a.qk_dim(), kv_width = s.heads_rank * (a.qk_nope_dim + a.v_head_dim);
  const std::int64_t latent = a.kv_lora_rank + a.qk_rope_dim;
  const std::int64_t q_in = a.q_lora_rank > 0 ? a.q_lora_rank : s.hidden;
  b_->memory("rotary embedding backward", Family::attention, bytes(2 * t * (q_width + kv_width)) + rotated_apart(), 4,
             {grad_up_}, {grad_q_, grad_k_, grad_v_});
  grad_joint_->cast(true);
  key_value_latent_->before_wgrad();
  if (a.q_lora_rank > 0)
    query_latent_->before_wgrad();
  else
    query_input_->before_wgrad();
  if (tp)
    b_->collective("latent all-gather again", kTp, cost::Collective::all_gather, t * (a.q_lora_rank + latent) * kD,
                   {latents_gathered_})
        .weight_gradient = true;
  b_->linear("key-value up-projection dgrad", Family::attention, {t, a.kv_lora_rank, kv_width, cost::GemmPass::dgrad},
             {grad_latents_});
  b_->linear("key-value up-projection wgrad", Family::attention, {kv_width, a.kv_lora_rank, t, cost::GemmPass::wgrad},
             {})
      .reads.push_back(key_value_latent_->kept());
  if (tp && a.q_lora_rank == 0)
    b_->collective("attention all-gather again", kTp, cost::Collective::all_gather, t * s.hidden * kD, {gathered_})
        .weight_gradient = true;
  // Without a query latent the query projection's input gradient is already one of the normed input.
  Op& dgrad = b_->linear("query up-projection dgrad", Family::attention, {t, q_in, q_width, cost::GemmPass::dgrad}, {});
  if (a.q_lora_rank == 0) dgrad.allocates.push_back(tp ? grad_partial_ : grad_norm);
  Op& wgrad = b_->linear("query up-projection wgrad", Family::attention, {q_width, q_in, t, cost::GemmPass::wgrad}, {},
                         {grad_up_});
  grad_joint_->drop(wgrad);
  if (a.q_lora_rank == 0) query_input_->drop(wgrad);
  if (a.q_lora_rank > 0) wgrad.reads.push_back(query_latent_->kept());
  if (tp) wgrad.frees.push_back(latents_gathered_);
  if (tp && a.q_lora_rank == 0) wgrad.frees.push_back(gathered_);
  if (tp) {
    b_->collective("latent gradient reduce-scatter", kTp, cost::Collective::reduce_scatter,
                   t * (a.q_lora_rank + latent) * kD, {});
    if (a.q_lora_rank == 0)
      b_->collective("attention gradient reduce-scatter", kTp, cost::Collective::reduce_scatter, t * s.hidden * kD,
                     {grad_norm}, {grad_partial_});
  }
  b_->memory("latent norm backward", Family::attention,
             moved(tl * (a.q_lora_rank + a.kv_lora_rank), b_->passes().norm_backward), a.q_lora_rank > 0 ? 4 : 2, {},
             {kv_latent_});
  Op& norms = b_->last();
  key_value_latent_->drop(norms);
  if (a.q_lora_rank > 0) {
    norms.frees.push_back(q_latent_);
    query_latent_->drop(norms);
  }
  grad_latent_->cast(true);
  if (a.q_lora_rank > 0) {
    query_input_->before_wgrad();
    b_->linear("query down-projection dgrad", Family::attention, {tl, s.hidden, a.q_lora_rank, cost::GemmPass::dgrad},
               {grad_norm});
    query_input_->drop(b_->linear("query down-projection wgrad", Family::attention,
                                  {a.q_lora_rank, s.hidden, tl, cost::GemmPass::wgrad}, {}));
  }
  latent_input_->before_wgrad();
  b_->linear("key-value down-projection dgrad", Family::attention, {tl, s.hidden, latent, cost::GemmPass::dgrad}, {});
  Op& last = b_->linear("key-value down-projection wgrad", Family::attention,
                        {latent, s.hidden, tl, cost::GemmPass::wgrad}, {}, {grad_latents_});
  latent_input_->drop(last);
  grad_latent_->drop(last);
  if (!narrow_saved_ || recompute_norm_) norm.drop_output(last);
}

}  // namespace moeplan::plan
