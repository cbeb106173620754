#include <optional>
#include <string>
#include <vector>

#include "plan/blocks.h"
#include "plan/eager_loss.h"
#include "plan/linear_input.h"

// The blocks at the ends of the network and at the borders of pipeline stages.
namespace moeplan::plan {

namespace {
constexpr std::int64_t kD = Shape::kElement;
constexpr auto kTp = topology::GroupKind::tp;

Op border(const char* name, Work work, Stream stream, const Shape& shape, bool reversed) {
  Op op;
  op.name = name;
  op.work = work;
  op.family = Family::communication;
  op.stream = stream;
  op.size.bytes = shape.tokens_local * shape.hidden * kD;
  op.reversed = reversed;
  op.asynchronous = work == Work::send;  // the next microbatch does not wait for it
  return op;
}
}  // namespace

Block make_embedding_block(const scenario::Scenario& scenario, const Shape& shape) {
  Block block;
  block.name = "embedding";
  Builder b(block, scenario, shape);
  const TensorId partial =
      b.tensor(TensorKind::activations_dense, "embedding partial output", shape.tokens * shape.hidden * kD);
  const TensorId out =
      b.tensor(TensorKind::activations_dense, "embedding output", shape.tokens_local * shape.hidden * kD);
  const TensorId grad =
      b.tensor(TensorKind::activations_dense, "embedding output gradient", shape.tokens_local * shape.hidden * kD);
  const TensorId grad_full =
      b.tensor(TensorKind::activations_dense, "embedding gathered gradient", shape.tokens * shape.hidden * kD);
  // Autograd hands the matrix's gradient over whole, in the parameters' type; it is then added into the main gradients.
  const TensorId grad_weight =
      b.tensor(TensorKind::workspace, "embedding returned weight gradient", shape.vocab_rank * shape.hidden * kD);
  const std::int64_t masked = scenario.training.hidden_dropout > 0 ? shape.tokens_local * shape.hidden : 0;
  const TensorId mask = b.tensor(TensorKind::activations_dense, "embedding dropout mask", masked);
  const bool tp = shape.tp > 1;
  const double moved = static_cast<double>(2 * shape.tokens * shape.hidden * kD);
  b.into_forward();
  if (tp) {
    b.memory("embedding", Family::dense, moved, 2, {partial});
    b.collective("embedding reduce-scatter", kTp, cost::Collective::reduce_scatter, shape.tokens * shape.hidden * kD,
                 {out}, {partial, out});
  } else {
    b.memory("embedding", Family::dense, moved, 2, {out}, {out});
  }
  if (masked > 0) b.last().allocates.push_back(mask);
  b.into_backward();
  b.fixed("output gradient arrives", Family::dense, 0.0, 0, {grad});
  if (tp)
    b.collective("embedding gradient all-gather", kTp, cost::Collective::all_gather, shape.tokens * shape.hidden * kD,
                 {grad_full});
  // Rows are added into the fp32 gradient buffer: read the row and the sum, write the sum.
  Op& op = b.memory("embedding backward", Family::dense, static_cast<double>(shape.tokens * shape.hidden * (kD + 8)), 2,
                    {grad_weight}, {grad, grad_weight});
  if (tp) op.frees.push_back(grad_full);
  if (masked > 0) op.frees.push_back(mask);
  return block;
}

Block make_head_block(const scenario::Scenario& scenario, const Shape& shape) {
  Block block;
  block.name = "loss";
  Builder b(block, scenario, shape);
  const bool tp = shape.tp > 1;
  const std::int64_t t = shape.tokens, v = shape.vocab_rank, logits_elements = t * v;
  const auto kind = TensorKind::logits_loss;
  const TensorId x_in =
      b.tensor(TensorKind::activations_dense, "final norm input", shape.tokens_local * shape.hidden * kD);
  // Megatron gathers into one buffer that it keeps (static_memory.cpp).
  const bool keeps_buffer = scenario.training.framework == scenario::Framework::megatron;
  const TensorId gathered = b.tensor(kind, "final norm output gathered", keeps_buffer ? 0 : t * shape.hidden * kD);
  const TensorId logits = b.tensor(kind, "logits (bf16)", logits_elements * kD);
  const bool in_place = scenario.training.in_place_cross_entropy;
  const bool eager = !scenario.training.fused_cross_entropy;
  const bool titan = eager && scenario.training.framework == scenario::Framework::torchtitan;
  const TensorId softmax = b.tensor(kind, "softmax (fp32)", in_place || titan ? 0 : logits_elements * 4);
  // In place: the tensor of the logits holds their gradient since forward.
  const TensorId grad_logits = in_place ? logits : b.tensor(kind, "logits gradient (bf16)", logits_elements * kD);
  const TensorId grad_partial = b.tensor(kind, "final norm gradient partial", t * shape.hidden * kD);
  const TensorId grad_norm = b.tensor(kind, "final norm output gradient", shape.tokens_local * shape.hidden * kD);
  const TensorId grad_in =
      b.tensor(TensorKind::activations_dense, "final norm input gradient", shape.tokens_local * shape.hidden * kD);
  const TensorId dummy =
      b.tensor(TensorKind::workspace, "output layer returned weight gradient", v * shape.hidden * kD);
  Norm norm(b, "final norm", Family::loss, false);
  std::optional<EagerLoss> titan_loss;
  if (titan) titan_loss.emplace(b, shape, logits, grad_logits);

  b.into_forward();
  b.fixed("final input arrives", Family::loss, 0.0, 0, {x_in});
  norm.forward();
  if (tp) b.collective("output all-gather", kTp, cost::Collective::all_gather, t * shape.hidden * kD, {gathered});
  Op& output = b.gemm("output layer", Family::loss, {t, v, shape.hidden}, {logits});
  if (tp) output.frees.push_back(gathered);
  if (titan_loss) {
    titan_loss->forward();
  } else if (in_place) {
    b.memory("cross-entropy in place", Family::loss, static_cast<double>(logits_elements * 3 * kD), 2, {softmax}, {},
             cost::MemoryAccess::loss);
  } else {
    // bf16 logits are read, an fp32 copy is written and turned into the softmax in place. Unfused, each of its steps
    // (copy, maximum, difference, exponential, sum, quotient) reads, and but for two writes, the copy by itself.
    const std::int64_t moved = eager ? kD + 9 * 4 : kD + 3 * 4;
    b.memory("cross-entropy", Family::loss, static_cast<double>(logits_elements * moved), eager ? 14 : 8, {softmax},
             {logits}, cost::MemoryAccess::loss);
  }
  if (tp) b.collective("cross-entropy all-reduce", kTp, cost::Collective::all_reduce, t * 3 * 4, {});

  b.into_backward();
  if (titan_loss) {
    titan_loss->backward();
  } else if (in_place) {  // scaled by the loss's own gradient
    b.memory("cross-entropy backward", Family::loss, static_cast<double>(logits_elements * 2 * kD), 1, {}, {softmax});
  } else {  // in place of the softmax, then its bf16 copy
    const std::int64_t moved = eager ? 3 * 4 + kD : 2 * 4 + kD;
    b.memory("cross-entropy backward", Family::loss, static_cast<double>(logits_elements * moved), eager ? 6 : 4,
             {grad_logits}, {softmax}, cost::MemoryAccess::loss);
  }
  if (tp)
    b.collective("output all-gather again", kTp, cost::Collective::all_gather, t * shape.hidden * kD, {gathered})
        .weight_gradient = true;
  b.gemm("output layer dgrad", Family::loss, {t, shape.hidden, v, cost::GemmPass::dgrad},
         {tp ? grad_partial : grad_norm});
  Op& wgrad = b.gemm("output layer wgrad", Family::loss, {v, shape.hidden, t, cost::GemmPass::wgrad}, {dummy},
                     {dummy, grad_logits});
  norm.drop_output(wgrad);
  if (tp) {
    wgrad.frees.push_back(gathered);
    b.collective("output gradient reduce-scatter", kTp, cost::Collective::reduce_scatter, t * shape.hidden * kD,
                 {grad_norm}, {grad_partial});
  }
  norm.backward(grad_norm, grad_in, {x_in});
  b.last().frees.push_back(grad_in);
  return block;
}

namespace {

// What is received has a buffer from the moment that the transfer is posted.
std::vector<Op> receive(const scenario::Scenario& scenario, Block& block, const char* what, Stream stream,
                        const Shape& shape, bool reversed) {
  Op transfer = border(what, Work::receive, stream, shape, reversed);
  if (!scenario.training.overlap_p2p_comm) return {transfer};
  block.tensors.push_back({TensorKind::activations_dense, std::string(what) + ", ahead", transfer.size});
  transfer.asynchronous = true;
  transfer.allocates = {0};
  Op wait;
  wait.name = std::string(what) + " is done";
  wait.work = Work::fixed;
  wait.joins = stream_bit(stream);
  wait.frees = {0};
  return {transfer, wait};
}

}  // namespace

Block make_receive_block(const scenario::Scenario& scenario, const Shape& shape, bool reversed) {
  Block block;
  block.name = "pipeline receive";
  block.forward = receive(scenario, block, "receive activations", Stream::receive_previous, shape, reversed);
  block.backward.push_back(border("send gradients", Work::send,
                                  reversed ? Stream::send_gradients_ahead : Stream::send_previous, shape, reversed));
  return block;
}

Block make_send_block(const scenario::Scenario& scenario, const Shape& shape, bool reversed) {
  Block block;
  block.name = "pipeline send";
  block.forward.push_back(border("send activations", Work::send,
                                 reversed ? Stream::send_activations_back : Stream::send_next, shape, reversed));
  block.backward = receive(scenario, block, "receive gradients", Stream::receive_next, shape, reversed);
  return block;
}

}  // namespace moeplan::plan
