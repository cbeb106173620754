#include <algorithm>
#include <string_view>

#include "plan/group_transfers.h"
#include "plan/linear_input.h"
#include "plan/shape.h"
#include "plan/side_streams.h"
#include "plan/static_memory.h"

namespace moeplan::plan {

namespace {

constexpr std::int64_t kD = Shape::kElement;  // parameters are gathered and gradients arise in bf16

std::uint32_t add_tensor(Block& block, TensorKind kind, const char* name, std::int64_t bytes) {
  block.tensors.push_back(Tensor{kind, name, Size{bytes, 0, {}}});
  return static_cast<std::uint32_t>(block.tensors.size() - 1);
}

class Division {
 public:
  Division(Block& block, const scenario::Scenario& scenario, const BlockParameters& parameters)
      : block_(block),
        scenario_(scenario),
        parameters_(parameters),
        shards_(shards_of(scenario)),
        optimizer_(scenario.optimizer),
        fused_(scenario.optimizer.gradient_accumulation_fusion ||
               scenario.training.framework != scenario::Framework::megatron) {}

  void gather() {
    const TransferBytes gathered = gathered_bytes(parameters_, scenario_);
    const std::int64_t bytes = gathered.dense + gathered.experts;
    const auto whole = add_tensor(block_, TensorKind::parameters, "gathered parameters", bytes);
    const auto ahead = add_tensor(block_, TensorKind::parameters, "gathered parameters, the block ahead", bytes);
    for (auto* ops : {&block_.forward, &block_.backward}) {
      if (ops->empty()) continue;
      ops->insert(ops->begin(), wait_for_parameters());
      ops->front().allocates = {whole, ahead};
      insert_transfers(*ops, 1, cost::Collective::all_gather, gathered);
      ops->back().frees.insert(ops->back().frees.end(), {whole, ahead});
    }
    // Backward multiplies by the other layout, which is made when it is needed.
    const std::int64_t linear = parameters_.linear + parameters_.experts;
    const std::int64_t transposed = parameter_format(scenario_).transposed(linear);
    if (transposed == 0 || block_.backward.empty()) return;
    const auto other = add_tensor(block_, TensorKind::parameters, "gathered parameters, transposed", transposed);
    block_.backward.front().allocates.push_back(other);
    block_.backward.back().frees.push_back(other);
  }

  void scatter_gradients() {
    if (block_.backward.empty()) return;
    const auto whole = add_tensor(block_, TensorKind::gradients, "whole gradients", parameters_.all() * kD);
    const auto sent = add_tensor(block_, TensorKind::gradients, "gradients being scattered, the block behind",
                                 parameters_.all() * optimizer_.reduce_bytes());
    auto& ops = block_.backward;
    const auto wgrad =
        std::find_if(ops.begin(), ops.end(), [](const Op& op) { return op.name.find("wgrad") != std::string::npos; });
    (wgrad == ops.end() ? ops.back() : *wgrad).allocates.push_back(whole);
    ops.front().allocates.push_back(sent);
    insert_transfers(ops, ops.size(), cost::Collective::reduce_scatter, gradient_bytes(parameters_, scenario_));
    ops.back().frees.insert(ops.back().frees.end(), {whole, sent});
    if (fused_) drop_returned_gradients();
  }

 private:
  void insert_transfers(std::vector<Op>& ops, std::size_t at, cost::Collective kind, const TransferBytes& bytes) {
    const std::vector<Op> added = group_transfers(kind, bytes, shards_);
    ops.insert(ops.begin() + static_cast<std::ptrdiff_t>(at), added.begin(), added.end());
  }

  // Weight gradients are these tensors themselves, not sums in a buffer of the whole model.
  void drop_returned_gradients() {
    for (Tensor& tensor : block_.tensors) {
      if (tensor.kind == TensorKind::workspace && tensor.name.find("returned weight gradient") != std::string::npos)
        tensor.size = Size{};
    }
  }

  Block& block_;
  const scenario::Scenario& scenario_;
  BlockParameters parameters_;
  Shards shards_;
  const scenario::Optimizer& optimizer_;
  bool fused_;  // weight gradients arise in the whole tensor, with none of their own before
};

}  // namespace

void divide_parameters(Block& block, const scenario::Scenario& scenario, const BlockParameters& parameters) {
  if (parameters.all() == 0) return;
  Division division(block, scenario, parameters);
  if (scenario.optimizer.shards_parameters()) division.gather();
  if (scenario.optimizer.shards_gradients()) division.scatter_gradients();
}

}  // namespace moeplan::plan
