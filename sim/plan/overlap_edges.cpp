#include <algorithm>
#include <string>
#include <vector>

#include "plan/group_transfers.h"
#include "plan/shape.h"
#include "plan/side_streams.h"

namespace moeplan::plan {

void delay_expert_wgrads(Block& block) {
  const auto exchange = std::find_if(block.backward.begin(), block.backward.end(),
                                     [](const Op& op) { return op.name == "dispatch backward"; });
  if (exchange == block.backward.end()) return;
  std::vector<Op> first, delayed;
  for (auto op = block.backward.begin(); op != exchange; ++op) {
    // With what adds their results to the gradient buffer, where the products do not.
    const bool wgrad = (op->work == Work::grouped_gemm && op->pass == cost::GemmPass::wgrad) ||
                       op->name.starts_with("add weight gradient of expert");
    (wgrad ? delayed : first).push_back(std::move(*op));
  }
  std::vector<Op> ops = std::move(first);
  ops.push_back(std::move(*exchange));
  for (Op& op : delayed) op.beside_exchange = true;
  ops.insert(ops.end(), delayed.begin(), delayed.end());
  ops.insert(ops.end(), exchange + 1, block.backward.end());
  block.backward = std::move(ops);
}

void overlap_step_edges(Block& block, const scenario::Scenario& scenario, const BlockParameters& parameters) {
  const auto& optimizer = scenario.optimizer;
  const auto& training = scenario.training;
  const Shards shards = shards_of(scenario);
  if (training.overlap_param_gather && optimizer.shards_states() && !optimizer.shards_parameters()) {
    std::vector<Op> ahead = {wait_for_parameters()};
    for (Op& op : group_transfers(cost::Collective::all_gather, gathered_bytes(parameters, scenario), shards))
      ahead.push_back(std::move(op));
    block.forward.insert(block.forward.begin(), ahead.begin(), ahead.end());
  }
  if (training.overlap_grad_reduce && !optimizer.shards_gradients()) {
    const bool scatters = optimizer.shards_states();
    for (Op& op : group_transfers(scatters ? cost::Collective::reduce_scatter : cost::Collective::all_reduce,
                                  gradient_bytes(parameters, scenario), scatters ? shards : Shards{0, 0}))
      (block.weights.empty() ? block.backward : block.weights).push_back(std::move(op));
  }
}

}  // namespace moeplan::plan
