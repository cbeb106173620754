#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/checked.h"
#include "plan/linear_input.h"
#include "plan/side_streams.h"

// Tensor-parallel exchanges beside products. Sources: Transformer Engine, pytorch/module/layernorm_linear.py (backward:
// the input is gathered by async_op under the dgrad product, dgrad is reduce-scattered by async_op under wgrad) and
// base.py, initialize_ub (methods, pieces and multiprocessors of user buffers); Megatron-LM, core/tensor_parallel/
// layers.py, LinearWithGradAccumulationAndAsyncCommunication (the same two, of the output layer).
namespace moeplan::plan {

namespace {

constexpr std::uint16_t kTp = stream_bit(Stream::tp), kBeside = stream_bit(Stream::tp_beside);
// initialize_ub's defaults: a ring exchange sends a piece a rank by one multiprocessor; the others take 16, and a
// pipelined reduce-scatter has 4 pieces.
constexpr std::int16_t kRingSms = 1, kUserBufferSms = 16;
constexpr std::int64_t kPipelinePieces = 4;
constexpr std::int64_t kGatherBuffers = 6, kScatterBuffers = 4;

bool user_buffers(const scenario::Scenario& scenario) {
  return scenario.layout.tp > 1 && scenario.training.framework == scenario::Framework::megatron &&
         scenario.training.tp_comm_overlap;
}
// An asynchronous collective is ahead of the product that is launched behind it where the device has one queue
// (CUDA_DEVICE_MAX_CONNECTIONS=1). Megatron demands that before Blackwell alone (training/arguments.py); Blackwell
// parts are those that multiply mxfp8. On B200 without user buffers measured runs show the whole exchange
// (docs/models.md).
bool overlaps(const scenario::Scenario& scenario) {
  if (scenario.layout.tp == 1 || scenario.training.framework != scenario::Framework::megatron) return false;
  return scenario.training.tp_comm_overlap || !cost::supports(scenario.hardware, cost::Precision::mxfp8);
}

// Linear layers that have user buffers (qkv, proj, fc1, fc2): of attention without latents and of dense MLPs.
bool has_user_buffer(const Op& op) {
  constexpr std::array<std::string_view, 8> kNames = {"qkv projection", "attention projection", "MLP gate-up",
                                                      "MLP down",       "attention all-gather", "attention gradient",
                                                      "MLP all-gather", "MLP gradient"};
  return std::any_of(kNames.begin(), kNames.end(), [&](std::string_view name) { return op.name.starts_with(name); });
}

bool is_exchange(const Op& op, cost::Collective kind) {
  return op.work == Work::collective && op.group == topology::GroupKind::tp && op.collective == kind &&
         op.stream == Stream::tp && !op.asynchronous;
}

// What travels through user buffers lies there, not in a tensor of its own.
void into_user_buffer(Block& block, const std::vector<std::uint32_t>& ids) {
  for (const std::uint32_t id : ids) block.tensors[id].size = {};
}

void gather_beside_dgrad(Block& block, std::size_t at, bool buffers) {
  Op& gather = block.backward[at];
  const auto reads = [](const Op& op) { return op.product && op.weight_gradient; };
  const auto wgrad =
      std::find_if(block.backward.begin() + static_cast<std::ptrdiff_t>(at), block.backward.end(), reads);
  MOEPLAN_CHECK(wgrad != block.backward.end(), "an input that is gathered again has a weight gradient");
  gather.stream = Stream::tp_beside;
  gather.asynchronous = true;
  wgrad->joins |= kBeside;
  if (!buffers || !has_user_buffer(gather)) return;
  gather.sms = kUserBufferSms;
  into_user_buffer(block, gather.allocates);
}

// Puts the reduce-scatter at `at` in front of the weight gradient before it, which runs meanwhile.
void scatter_beside_wgrad(Block& block, std::size_t at, bool buffers) {
  auto& ops = block.backward;
  std::size_t first = at;
  while (first > 0 && ops[first - 1].weight_gradient && ops[first - 1].work != Work::collective) --first;
  if (first == at || at + 1 == ops.size()) return;
  std::rotate(ops.begin() + static_cast<std::ptrdiff_t>(first), ops.begin() + static_cast<std::ptrdiff_t>(at),
              ops.begin() + static_cast<std::ptrdiff_t>(at + 1));
  Op& scatter = ops[first];
  scatter.asynchronous = true;
  scatter.joins |= kBeside;  // one communicator: one after the other
  for (std::size_t i = first + 1; i <= at; ++i) ops[i].beside_tp = true;
  ops[at + 1].joins |= kTp;
  if (buffers && has_user_buffer(scatter)) {
    scatter.sms = kUserBufferSms;
    into_user_buffer(block, scatter.frees);
  }
  // The partial sums are there until it has ended.
  for (const std::uint32_t id : std::exchange(scatter.frees, {})) {
    ops[at].frees.push_back(id);
    ops[at].unread.push_back(id);
  }
}

// Of products in pieces: `rows` of each.
double piece_s(const Op& op, std::int64_t rows, const scenario::Scenario& scenario) {
  return cost::gemm_time_s({rows, op.n, op.k, op.pass}, scenario.hardware, op.precision);
}

// The product of `count` pieces as two ops: `ahead` of them, then the others.
std::pair<Op, Op> in_two(const Op& product, std::int64_t count, std::int64_t ahead,
                         const scenario::Scenario& scenario) {
  const double seconds = piece_s(product, base::ceil_div(product.m, count), scenario);
  std::pair<Op, Op> parts{product, product};
  parts.first.seconds = seconds * static_cast<double>(ahead);
  parts.second.seconds = seconds * static_cast<double>(count - ahead);
  parts.first.launches = static_cast<std::uint16_t>(ahead);
  parts.second.launches = static_cast<std::uint16_t>(count - ahead);
  parts.second.calls = 0;
  parts.first.frees.clear();
  parts.second.allocates.clear();
  parts.second.name += ", last pieces";
  return parts;
}

// Each rank's piece of the input travels round the ring, and is multiplied when it is there: its own at once. n pieces
// of product P and exchange X take P/n + max((n - 1) P/n, X).
void gather_in_pieces(Block& block, std::vector<Op>& out, Op gather, std::vector<Op> casts, const Op& product,
                      const scenario::Scenario& scenario) {
  const std::int64_t pieces = scenario.layout.tp;
  for (Op& cast : casts) {  // what is gathered is quantised before
    cast.size.bytes /= pieces;
    out.push_back(cast);
  }
  if (!casts.empty()) gather.size.bytes = operand_bytes(scenario, gather.size.bytes / Shape::kElement);
  gather.stream = Stream::tp_beside;
  gather.asynchronous = true;
  gather.sms = kRingSms;
  into_user_buffer(block, gather.allocates);
  auto [ahead, last] = in_two(product, pieces, pieces - 1, scenario);
  last.joins |= kBeside;
  out.insert(out.end(), {gather, ahead, last});
}

// Each piece of the output is added up and handed out while the next is multiplied: n pieces take
// P/n + (n - 1) max(P/n, X/n) + X/n.
void scatter_in_pieces(Block& block, std::vector<Op>& out, const Op& product, const Op& scatter,
                       const scenario::Scenario& scenario) {
  auto [first, rest] = in_two(product, kPipelinePieces, 1, scenario);
  Op under = scatter, last = scatter;
  under.size.bytes = last.size.bytes = base::ceil_div(scatter.size.bytes, kPipelinePieces);
  under.sms = last.sms = kUserBufferSms;
  under.stream = Stream::tp_beside;
  under.asynchronous = true;
  under.repeats = kPipelinePieces - 1;
  under.allocates.clear();
  under.frees.clear();
  last.joins |= kBeside;
  last.name += ", last piece";
  into_user_buffer(block, scatter.frees);
  out.insert(out.end(), {first, under, rest, last});
}

void split_products(Block& block, std::vector<Op>& ops, const scenario::Scenario& scenario) {
  std::vector<Op> out;
  const auto has_pieces = [](const Op& op) { return op.product && !op.weight_gradient && has_user_buffer(op); };
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (is_exchange(ops[i], cost::Collective::all_gather) && !ops[i].weight_gradient && has_user_buffer(ops[i])) {
      std::vector<Op> casts;
      std::size_t j = i + 1;
      while (j < ops.size() && ops[j].name.starts_with("quantise")) casts.push_back(ops[j++]);
      if (j < ops.size() && has_pieces(ops[j])) {
        gather_in_pieces(block, out, ops[i], casts, ops[j], scenario);
        i = j;
        continue;
      }
    }
    if (has_pieces(ops[i]) && i + 1 < ops.size() && is_exchange(ops[i + 1], cost::Collective::reduce_scatter)) {
      scatter_in_pieces(block, out, ops[i], ops[i + 1], scenario);
      ++i;
      continue;
    }
    out.push_back(std::move(ops[i]));
  }
  ops = std::move(out);
}

}  // namespace

void overlap_tensor_parallel(Block& block, const scenario::Scenario& scenario) {
  if (!overlaps(scenario)) return;
  const bool buffers = user_buffers(scenario);
  for (std::size_t i = 0; i < block.backward.size(); ++i) {
    const Op& op = block.backward[i];
    if (is_exchange(op, cost::Collective::all_gather) && op.weight_gradient)
      gather_beside_dgrad(block, i, buffers);
    else if (is_exchange(op, cost::Collective::reduce_scatter))
      scatter_beside_wgrad(block, i, buffers);
  }
}

void exchange_in_pieces(Block& block, const scenario::Scenario& scenario) {
  if (!user_buffers(scenario)) return;
  split_products(block, block.forward, scenario);
  split_products(block, block.backward, scenario);
}

std::int64_t user_buffer_bytes(const scenario::Scenario& scenario) {
  if (!user_buffers(scenario)) return 0;
  const Shape shape = make_shape(scenario);
  const std::int64_t elements = shape.tokens * shape.hidden;
  return kGatherBuffers * operand_bytes(scenario, elements) + kScatterBuffers * elements * Shape::kElement;
}

}  // namespace moeplan::plan
