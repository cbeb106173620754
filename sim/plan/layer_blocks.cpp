#include <algorithm>

#include "plan/blocks.h"
#include "plan/operator_checkpoint.h"

namespace moeplan::plan {

namespace {

constexpr std::int64_t kD = Shape::kElement;
using scenario::RecomputeGranularity;
using scenario::RecomputeModule;

// What the two kinds of layer share: residual stream tensors and the order norm, attention, norm, MLP.
struct LayerFrame {
  LayerFrame(Block& block, const scenario::Scenario& scenario, const Shape& shape, bool spared_ = false)
      : b(block, scenario, shape), spared(spared_) {
    const std::int64_t residual = shape.tokens_local * shape.hidden * kD;
    auto stream = [&](const char* name) { return b.tensor(TensorKind::activations_dense, name, residual); };
    x_in = stream("layer input");
    x_mid = stream("attention residual");
    out = stream("layer output");
    mlp_out = stream("MLP output");
    shared_out = stream("shared expert output");
    grad_out = stream("layer output gradient");
    grad_norm2 = stream("MLP input gradient");
    grad_mid = stream("attention residual gradient");
    grad_in = stream("layer input gradient");
    // A mask of a byte an element of what attention and MLP give; in backward the gradient without what was dropped.
    dropout = scenario.training.hidden_dropout > 0;
    const std::int64_t mask = dropout ? residual / kD : 0;
    attention_mask = b.tensor(TensorKind::activations_dense, "attention dropout mask", mask);
    mlp_mask = b.tensor(TensorKind::activations_dense, "MLP dropout mask", mask);
    grad_attention = b.tensor(TensorKind::activations_dense, "attention dropout gradient", dropout ? residual : 0);
    grad_mlp = b.tensor(TensorKind::activations_dense, "MLP dropout gradient", dropout ? residual : 0);
  }
  bool selective(RecomputeModule module) const {
    const auto& r = b.scenario().recompute;
    return r.granularity == RecomputeGranularity::selective && r.has(module);
  }
  void drop_out(TensorId mask, bool keep) {  // in the op that was emitted last
    if (!dropout) return;
    b.last().allocates.push_back(mask);
    if (!keep) b.last().frees.push_back(mask);
  }
  void drop_out_backward(const char* name, TensorId mask, TensorId gradient) {
    if (!dropout) return;
    const Shape& s = b.shape();
    b.memory(name, Family::dense, static_cast<double>(s.tokens_local * s.hidden * (2 * kD + 1)), 1, {gradient}, {mask});
  }
  bool by_operator() const { return b.scenario().recompute.granularity == RecomputeGranularity::selective_op; }
  // The whole layer runs again in backward.
  bool full() const {
    return by_operator() || (!spared && b.scenario().recompute.granularity == RecomputeGranularity::full);
  }
  Builder b;
  bool spared, dropout;
  TensorId x_in, x_mid, out, mlp_out, shared_out, grad_out, grad_norm2, grad_mid, grad_in;
  TensorId attention_mask, mlp_mask, grad_attention, grad_mlp;
  TensorId mlp_gradient() const { return dropout ? grad_mlp : grad_out; }  // of what the MLP gave
};

// Attention's backward, whose projection is the last to read the gradient behind dropout.
void attention_backward(LayerFrame& f, Attention& attention, Norm& norm) {
  f.drop_out_backward("attention dropout backward", f.attention_mask, f.grad_attention);
  const std::size_t first = f.b.block().backward.size();
  attention.backward(f.x_in, f.grad_mid, f.grad_in, norm);
  f.b.last().frees.push_back(f.grad_in);
  if (!f.dropout) return;
  auto& ops = f.b.block().backward;
  const auto projection = std::find_if(ops.begin() + static_cast<std::ptrdiff_t>(first), ops.end(),
                                       [](const Op& op) { return op.name == "attention projection wgrad"; });
  projection->frees.push_back(f.grad_attention);
  std::erase(projection->reads, f.grad_mid);  // behind dropout it reads that
}

void arrive(LayerFrame& f, const char* name, TensorId id) { f.b.fixed(name, Family::dense, 0.0, 0, {id}); }

// Outputs that selective_op keeps: one tensor from the end of forward to the start of backward, whose own run of the
// layer allocates them again.
void keep_outputs(LayerFrame& f, Block& block, const std::string& mlp, std::int64_t ffn) {
  if (!f.by_operator()) return;
  const OperatorCheckpoint checkpoint = operator_checkpoint(f.b.scenario(), f.b.shape(), mlp, ffn);
  const TensorId kept = f.b.tensor(TensorKind::activations_dense, "kept operator outputs", checkpoint.bytes);
  block.forward.back().allocates.push_back(kept);
  block.backward.front().frees.push_back(kept);
  skip_kept(block, checkpoint);
}

}  // namespace

Block make_dense_layer_block(const scenario::Scenario& scenario, const Shape& shape, const LayerTraits& traits) {
  Block block;
  block.name = "dense layer";
  LayerFrame f(block, scenario, shape, traits.runs_once());
  Builder& b = f.b;
  const bool gqa = scenario.model.attention.kind == model::AttentionKind::gqa;
  Norm norm1(b, "attention norm", Family::attention, gqa), norm2(b, "MLP norm", Family::dense, true);
  Attention attention(b, traits.window, norm1);
  Mlp mlp(b, "MLP", scenario.model.dense_ffn, TensorKind::activations_dense, norm2);
  const bool drop_norm = f.selective(RecomputeModule::layernorm), drop_mlp = f.selective(RecomputeModule::mlp);

  auto forward = [&](bool keep) {
    norm1.forward();
    attention.forward(f.x_mid, norm1, keep);
    f.drop_out(f.attention_mask, keep);
    norm2.forward();
    mlp.forward(f.mlp_out, keep && !drop_mlp);
    if (!keep || (drop_norm && !drop_mlp)) norm2.drop_output(b.last());
    if (!keep) norm2.drop_statistics(b.last());
  };
  auto finish = [&](bool keep) {
    Op& add = b.memory("MLP residual add", Family::dense,
                       static_cast<double>(3 * shape.tokens_local * shape.hidden * kD), 1, {f.out}, {f.mlp_out, f.out});
    if (!keep) add.frees.push_back(f.x_mid);
    f.drop_out(f.mlp_mask, keep);
  };
  b.into_forward();
  arrive(f, "layer input arrives", f.x_in);
  forward(!f.full());
  finish(!f.full());

  b.into_backward();
  arrive(f, "output gradient arrives", f.grad_out);
  if (f.full()) {
    b.set_recompute(true);
    forward(true);
    finish(true);
    b.set_recompute(false);
  } else {
    if (drop_norm && !drop_mlp) norm2.recompute();
    if (drop_mlp) {
      b.set_recompute(true);
      mlp.forward(f.mlp_out, true);
      b.last().frees.push_back(f.mlp_out);
      b.set_recompute(false);
    }
  }
  f.drop_out_backward("MLP dropout backward", f.mlp_mask, f.grad_mlp);
  mlp.backward(f.mlp_gradient(), f.grad_norm2, true);
  norm2.drop_output(b.last());
  if (f.dropout) b.last().frees.push_back(f.grad_mlp);
  norm2.backward(f.grad_norm2, f.grad_mid, {f.x_mid, f.grad_out});
  attention_backward(f, attention, norm1);
  keep_outputs(f, block, "MLP", scenario.model.dense_ffn);
  return block;
}

Block make_moe_layer_block(const scenario::Scenario& scenario, const Shape& shape, const Treatment& treatment,
                           const LayerTraits& traits) {
  Block block;
  block.name = "MoE layer";
  LayerFrame f(block, scenario, shape, traits.runs_once());
  Builder& b = f.b;
  const bool has_shared = scenario.model.moe.shared_ffn > 0;
  const bool gqa = scenario.model.attention.kind == model::AttentionKind::gqa;
  Norm norm1(b, "attention norm", Family::attention, gqa), norm2(b, "MoE norm", Family::router_permute, false);
  Attention attention(b, traits.window, norm1);
  Router router(b);
  Routed routed(b, treatment);
  std::optional<Mlp> shared;
  if (has_shared) shared.emplace(b, "shared expert", scenario.model.moe.shared_ffn, TensorKind::activations_moe, norm2);

  const bool full = f.full();
  const bool holds = holds_activations(treatment.backward);
  const bool wants_module = f.selective(RecomputeModule::moe);
  const bool module = wants_module && holds;  // routed part and all at once
  const bool drop_shared = f.selective(RecomputeModule::shared_experts) || wants_module;
  const bool drop_norm = f.selective(RecomputeModule::layernorm);
  // Under recompute and re-dispatch the routed part keeps nothing in forward whatever the layer does.
  const bool keeps_routed = holds && !full && !module;

  auto attention_and_norm = [&](bool keep) {
    norm1.forward();
    attention.forward(f.x_mid, norm1, keep);
    f.drop_out(f.attention_mask, keep);
    norm2.forward();
  };
  auto residual = [&](bool keep) {
    Op& add = b.memory("MoE residual add", Family::router_permute,
                       static_cast<double>((has_shared ? 4 : 3) * shape.tokens_local * shape.hidden * kD),
                       has_shared ? 2 : 1, {f.out}, {f.mlp_out, f.out});
    if (has_shared) add.frees.push_back(f.shared_out);
    if (!keep) {
      norm2.drop_statistics(add);
      add.frees.push_back(f.x_mid);
    }
    if (!keep || drop_norm) norm2.drop_output(add);
    f.drop_out(f.mlp_mask, keep);
  };

  b.into_forward();
  arrive(f, "layer input arrives", f.x_in);
  attention_and_norm(!full);
  if (has_shared) shared->forward(f.shared_out, !full && !drop_shared);
  router.forward();
  routed.forward(f.mlp_out, keeps_routed);
  if (full || wants_module) router.drop(b.last());
  residual(!full);

  b.into_backward();
  arrive(f, "output gradient arrives", f.grad_out);
  b.set_recompute(true);
  if (full) {
    attention_and_norm(true);
    if (has_shared) {
      shared->forward(f.shared_out, true);
      b.last().frees.push_back(f.shared_out);
    }
    router.forward();
  } else {
    b.set_recompute(false);
    if (drop_norm) norm2.recompute();
    b.set_recompute(true);
    if (has_shared && drop_shared) {
      shared->forward(f.shared_out, true);
      b.last().frees.push_back(f.shared_out);
    }
    if (wants_module) router.forward();
  }
  if ((full && holds) || module) {
    routed.forward(f.mlp_out, true);
    b.last().frees.push_back(f.mlp_out);
  }
  if (full) f.drop_out(f.mlp_mask, true);
  b.set_recompute(false);
  f.drop_out_backward("MLP dropout backward", f.mlp_mask, f.grad_mlp);
  routed.backward(f.grad_norm2);
  router.backward();
  b.last().reads.push_back(norm2.output());
  if (has_shared) shared->backward(f.mlp_gradient(), f.grad_norm2, false);
  norm2.drop_output(b.last());
  if (f.dropout) b.last().frees.push_back(f.grad_mlp);
  norm2.backward(f.grad_norm2, f.grad_mid, {f.x_mid, f.grad_out});
  attention_backward(f, attention, norm1);
  keep_outputs(f, block, "shared expert", scenario.model.moe.shared_ffn);
  return block;
}

Block make_mtp_block(const scenario::Scenario& scenario, const Shape& shape) {
  Block block;
  block.name = "MTP projection";
  LayerFrame f(block, scenario, shape);
  Builder& b = f.b;
  const std::int64_t residual = shape.tokens_local * shape.hidden * kD;
  const TensorId looked_up = b.tensor(TensorKind::activations_dense, "MTP token embedding", residual);
  const TensorId joined = b.tensor(TensorKind::activations_dense, "MTP normed pair", 2 * residual);
  const TensorId grad_joined = b.tensor(TensorKind::activations_dense, "MTP pair gradient", 2 * residual);
  const std::int64_t out_width = shape.hidden / shape.tp;
  const double moved = static_cast<double>(residual);
  b.into_forward();
  arrive(f, "hidden states arrive", f.x_in);
  b.memory("MTP embedding", Family::dense, 2 * moved, 2, {looked_up});
  b.memory("MTP norms", Family::dense, 4 * moved, 2, {joined});
  b.gemm("MTP projection", Family::dense, {shape.tokens, out_width, 2 * shape.hidden}, {f.out}, {f.out});
  if (shape.tp > 1)
    b.collective("MTP gather", topology::GroupKind::tp, cost::Collective::all_gather, shape.tokens * shape.hidden * kD,
                 {});
  b.into_backward();
  arrive(f, "output gradient arrives", f.grad_out);
  b.gemm("MTP projection dgrad", Family::dense, {shape.tokens, 2 * shape.hidden, out_width, cost::GemmPass::dgrad},
         {grad_joined});
  Op& wgrad = b.gemm("MTP projection wgrad", Family::dense,
                     {out_width, 2 * shape.hidden, shape.tokens, cost::GemmPass::wgrad}, {}, {joined});
  b.holds_weight_gradient(wgrad, out_width * 2 * shape.hidden, 1);
  wgrad.reads.push_back(f.grad_out);
  b.memory("MTP norms backward", Family::dense, 8 * moved, 4, {f.grad_in},
           {grad_joined, looked_up, f.x_in, f.grad_out, f.grad_in});
  return block;
}

}  // namespace moeplan::plan
