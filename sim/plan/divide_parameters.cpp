#include <algorithm>
#include <string_view>

#include "plan/group_transfers.h"
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
      : block_(block), parameters_(parameters), shards_(shards_of(scenario)), optimizer_(scenario.optimizer) {}

  void gather() {
    const std::int64_t bytes = parameters_.all() * kD;
    const auto whole = add_tensor(block_, TensorKind::parameters, "gathered parameters", bytes);
    const auto ahead = add_tensor(block_, TensorKind::parameters, "gathered parameters, the block ahead", bytes);
    for (auto* ops : {&block_.forward, &block_.backward}) {
      if (ops->empty()) continue;
      ops->insert(ops->begin(), wait_for_parameters());
      ops->front().allocates = {whole, ahead};
      insert_transfers(*ops, 1, cost::Collective::all_gather, kD);
      ops->back().frees.insert(ops->back().frees.end(), {whole, ahead});
    }
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
    insert_transfers(ops, ops.size(), cost::Collective::reduce_scatter, optimizer_.reduce_bytes());
    ops.back().frees.insert(ops.back().frees.end(), {whole, sent});
    drop_returned_gradients();
  }

 private:
  void insert_transfers(std::vector<Op>& ops, std::size_t at, cost::Collective kind, std::int64_t element_bytes) {
    const std::vector<Op> added = group_transfers(kind, parameters_, shards_, element_bytes);
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
  BlockParameters parameters_;
  Shards shards_;
  const scenario::Optimizer& optimizer_;
};

}  // namespace

void divide_parameters(Block& block, const scenario::Scenario& scenario, const BlockParameters& parameters) {
  if (parameters.all() == 0) return;
  Division division(block, scenario, parameters);
  if (scenario.optimizer.shards_parameters()) division.gather();
  if (scenario.optimizer.shards_gradients()) division.scatter_gradients();
}

}  // namespace moeplan::plan
