#include <string>

#include "plan/moe.h"

// Tensors of the routed part, one set a chunk.
namespace moeplan::plan {

namespace {
constexpr std::int64_t kD = Shape::kElement;
constexpr std::int64_t kProbability = 4;  // fp32
constexpr std::int64_t kRowIndex = 8;     // int64 position of a row
constexpr auto kMoe = TensorKind::activations_moe;
constexpr auto kBuffer = TensorKind::dispatch_buffers;
}  // namespace

Routed::Chunk Routed::make_chunk(std::size_t i) {
  const std::string tag = treatment_.chunks > 1
                              ? " (chunk " + std::to_string(i + 1) + " of " + std::to_string(treatment_.chunks) + ")"
                              : "";
  auto row = [&](TensorKind kind, const char* name, std::int64_t bytes, Rows rows) {
    return row_tensor(kind, name + tag, bytes, rows);
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
  const bool titan = b_->scenario().training.framework == scenario::Framework::torchtitan;
  c.silu = row(kMoe, titan ? "expert activated gate" : "expert activation before its weight",
               retained() ? 0 : between_activations() * ffn_ * kD, in);
  c.act = row(kMoe, "expert activation", ffn_ * kD, in);
  c.clamped = row(kMoe, "clamped expert gate-up output", clamped_ ? first_ * kD : 0, in);
  c.grad_clamped = row(kMoe, "clamped expert gate-up gradient", clamped_ ? first_ * kD : 0, in);
  // Sums of the experts, and their concatenation.
  c.biased = row(kBuffer, "expert output with bias (fp32)", biased_ ? 2 * hidden_ * 4 : 0, in);
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
  if (path_ == Path::allgather) make_allgather(c);
  if (path_ == Path::kernels) make_kernels(c, i, tag);
  if (stashes_) {  // the rows that are there, in pages
    c.stash_probabilities = b_->row_tensor(kMoe, "stashed expert probabilities" + tag, kProbability, in);
    c.stash_fc1 = b_->row_tensor(kMoe, "stashed gate-up output" + tag, first_ * kD, in);
  }
  make_operands(c, i, tag);
  return c;
}

// torchtitan's SwiGLU is two operations: backward reads the activated gate between them. Megatron's, not fused, scales
// by the router's weight in one more, which keeps what it scales.
std::int64_t Routed::between_activations() const {
  const auto& training = b_->scenario().training;
  const bool gated = b_->shape().gates == 2;
  if (training.framework == scenario::Framework::torchtitan) return gated ? 1 : 0;
  return training.bias_activation_fusion ? 0 : (gated ? 2 : 1);
}

void Routed::make_operands(Chunk& c, std::size_t i, const std::string& tag) {
  const Rows in = received(i, false), grad_in = received(i, retained());
  using Role = LinearInput::Role;
  const auto add = [&](const char* name, TensorId wide, std::int64_t width, Rows rows, Role role, bool shared) {
    const LinearInput::Form form{role, shared, retained(), Size{0, width, rows}, row_size(width, rows)};
    c.operands.emplace_back(*b_, name + tag, Family::expert, kMoe, wide, form);
  };
  add("expert input", sorted_ ? c.input : c.received, hidden_, in, Role::input, false);
  add("expert activation", c.act, ffn_, in, Role::input, false);
  const bool sorted = sorted_ || retained();
  add("kept expert input", sorted ? c.kept_input : c.received, hidden_, grad_in, Role::input, false);
  add("kept expert activation", c.kept_act, ffn_, grad_in, Role::input, false);
  add("expert output gradient", c.grad_fc2, hidden_, grad_in, Role::gradient, true);
  add("expert gate-up gradient", c.grad_fc1, first_, grad_in, Role::gradient, true);
  if (!stashes_) return;
  // Pages hold what backward reads: the copy for the weight gradient, in a narrow precision.
  const OperandFormat format = operand_format(b_->scenario());
  const auto page = [&](const char* name, std::int64_t width) {
    return b_->row_tensor(kMoe, name + tag, format.narrow && format.saved ? format.bytes(width) : width * kD, in);
  };
  c.stash_input = page("stashed expert input", hidden_);
  c.stash_act = page("stashed expert activation", ffn_);
}

}  // namespace moeplan::plan
