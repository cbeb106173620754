#include "plan/host_calls.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <span>
#include <string_view>
#include <vector>

namespace moeplan::plan {

namespace {

using scenario::Framework;

// Operations behind an op whose name holds `part`: the first row that fits counts. `experts`: that many more for each
// expert of the rank.
struct Row {
  std::string_view part;
  int forward, backward;
  double experts = 0;
};

// Recomputed modules: forward reads the states of the host's and the device's random generators; backward reads both,
// sets those of forward, and sets back what it read (Megatron-LM, core/tensor_parallel/random.py).
constexpr int kCheckpoint = 8;

// Products and casts of experts are issued from loops in C++: 8.3 us an expert in SimuMax's grouped products on B200
// (4dcaae5), a fifth of an operation.
constexpr double kIssue = 0.2;

constexpr std::array kRows{
    // Routed part. The gating product is cast to fp32; the scores, their choice and the auxiliary loss are some sixty
    // small operations, of which about half have a gradient.
    Row{"router top-k", 54, 25}, Row{"router", 4, 2},
    Row{"notify", 20, 0},                 // 14 to prepare the exchange, the exchange, copies of counts to the host
    Row{"dispatch preprocessing", 4, 0},  // one fused kernel
    Row{"gather routing map", 2, 0}, Row{"permute landed", 3, 3},  // fused kernel
    Row{"sum rows of a token", 3, 3}, Row{"sum gradients of a token", 3, 3}, Row{"restore arrival order", 3, 3},
    Row{"sort", 6, 3},  // rows and probabilities, each split and put together
    Row{"unpermute", 6, 6}, Row{"permute", 8, 8}, Row{"dispatch", 6, 6},  // rows and probabilities: two exchanges
    Row{"combine", 4, 4}, Row{"quantise expert", 2, 2, kIssue}, Row{"expert bias backward", 0, 1, 5},
    Row{"expert bias", 2, 2, 3}, Row{"expert clamp", 4, 5}, Row{"expert SwiGLU", 3, 3},  // of shared experts, too
    Row{"shared expert gate-up dgrad", 0, 2}, Row{"shared expert gate-up wgrad", 0, 3},
    Row{"shared expert gate-up", 3, 3}, Row{"shared expert down dgrad", 0, 2}, Row{"shared expert down wgrad", 0, 3},
    Row{"shared expert down", 3, 3}, Row{"shared expert", 2, 2},  // exchanges
    Row{"expert gate-up dgrad", 0, 2, kIssue},
    Row{"expert gate-up wgrad", 0, 2, kIssue + 1},  // a product, and a hook of the gradient, for each expert
    Row{"expert gate-up", 3, 3, kIssue}, Row{"expert down dgrad", 0, 2, kIssue},
    Row{"expert down wgrad", 0, 2, kIssue + 1}, Row{"expert down", 3, 3, kIssue},
    // Dense part.
    Row{"query-key norm", 6, 6}, Row{"norm", 3, 3},
    Row{"quantise", 2, 2},                                        // output, its scales and their copies are allocated
    Row{"rotary", 12, 10},                                        // heads are split, viewed, rotated and put together
    Row{"core attention", 12, 6},                                 // the choice of a backend is made at every call
    Row{"residual add", 5, 2},                                    // with what the layer does around its modules
    Row{"SwiGLU", 3, 3}, Row{"dgrad", 0, 2}, Row{"wgrad", 0, 3},  // with the hook that hands the gradient to its bucket
};

// Rows that a fused kernel replaces.
constexpr std::array kRouterFusion{Row{"router top-k", 13, 8}};
constexpr std::array kPermuteFusion{Row{"restore arrival order", 2, 2}, Row{"sort", 3, 2}, Row{"unpermute", 3, 3},
                                    Row{"permute", 3, 3}};

std::uint16_t calls_of(const Op& op, bool backward, std::int64_t local_experts, std::span<const Row> rows) {
  for (const Row& row : rows) {
    if (op.name.find(row.part) == std::string::npos) continue;
    const std::int64_t calls = (backward && !op.recompute ? row.backward : row.forward) +
                               std::llround(row.experts * static_cast<double>(local_experts));
    return static_cast<std::uint16_t>(std::min<std::int64_t>(calls, std::numeric_limits<std::uint16_t>::max()));
  }
  if (op.work == Work::collective || op.work == Work::all_to_all || op.work == Work::send || op.work == Work::receive)
    return 2;  // a work object and the events around it
  return 3;    // a linear layer
}

}  // namespace

void count_host_calls(Block& block, const scenario::Scenario& scenario, const Shape& shape) {
  if (scenario.training.framework == Framework::torchtitan) return;
  std::vector<Row> rows;
  const auto& dispatch = scenario.dispatch;
  if (dispatch.router_fusion) rows.insert(rows.end(), kRouterFusion.begin(), kRouterFusion.end());
  if (dispatch.permute_fusion) rows.insert(rows.end(), kPermuteFusion.begin(), kPermuteFusion.end());
  rows.insert(rows.end(), kRows.begin(), kRows.end());
  for (auto* ops : {&block.forward, &block.backward, &block.weights})
    for (Op& op : *ops)
      if (op.launches > 0) op.calls = calls_of(op, ops != &block.forward, shape.local_experts, rows);
  bool again = false;
  for (Op& op : block.backward) {
    if (op.launches == 0) continue;
    if (op.recompute && !again) op.calls = static_cast<std::uint16_t>(op.calls + kCheckpoint);
    again = op.recompute;
  }
}

void count_optimizer_calls(Block& block, const scenario::Scenario& scenario, const Shape& shape, std::int64_t stage) {
  if (scenario.training.framework == Framework::torchtitan) return;
  constexpr std::int64_t kWalks = 4;
  constexpr std::int64_t kDense = 8;        // norms, projections and MLP matrices of a layer
  constexpr std::int64_t kRoutedLayer = 9;  // without routed experts: router and shared expert for the MLP
  std::int64_t tensors = 2;                 // embedding or output layer, final norm
  for (std::int64_t v = 0; v < scenario.stages.chunks(); ++v)
    for (const std::int32_t layer : scenario.stages.chunk(stage, v).layers)
      tensors += scenario.model.layers[static_cast<std::size_t>(layer)] == model::LayerKind::moe
                     ? kRoutedLayer + 2 * shape.local_experts
                     : kDense;
  for (Op& op : block.forward)
    if (op.name == "Adam")
      op.calls = static_cast<std::uint16_t>(
          std::min<std::int64_t>(kWalks * tensors, std::numeric_limits<std::uint16_t>::max()));
}

}  // namespace moeplan::plan
