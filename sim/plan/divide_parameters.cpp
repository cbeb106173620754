#include <algorithm>
#include <string_view>

#include "base/checked.h"
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
  Division(Block& block, const scenario::Scenario& scenario, const BlockParameters& parameters, bool edge)
      : block_(block),
        scenario_(scenario),
        parameters_(parameters),
        shards_(shards_of(scenario)),
        optimizer_(scenario.optimizer),
        fused_(scenario.optimizer.gradient_accumulation_fusion ||
               scenario.training.framework != scenario::Framework::megatron),
        kept_(keeps_gathered(scenario)),
        edge_(edge) {}

  void gather() {
    const TransferBytes gathered = gathered_bytes(parameters_, scenario_);
    const std::int64_t bytes = gathered.dense + gathered.experts;
    if (kept_) {
      if (edge_ && !block_.forward.empty()) {
        block_.forward.insert(block_.forward.begin(), wait_for_parameters());
        insert_transfers(block_.forward, 1, cost::Collective::all_gather, gathered);
      }
      return;
    }
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
    if (kept_) add_to_whole_gradients(whole);
    const auto wgrad =
        std::find_if(ops.begin(), ops.end(), [](const Op& op) { return op.name.find("wgrad") != std::string::npos; });
    (wgrad == ops.end() ? ops.back() : *wgrad).allocates.push_back(whole);
    if (!kept_ || edge_) {
      ops.front().allocates.push_back(sent);
      insert_transfers(ops, ops.size(), cost::Collective::reduce_scatter, gradient_bytes(parameters_, scenario_));
      ops.back().frees.push_back(sent);
    }
    if (!kept_) ops.back().frees.push_back(whole);
    if (makes_gradient_shards(scenario_)) {
      const std::int64_t shards =
          base::ceil_div(parameters_.dense, shards_.dense) + base::ceil_div(parameters_.experts, shards_.experts);
      ops.back().allocates.push_back(
          add_tensor(block_, TensorKind::gradients, "gradient shards", shards * optimizer_.main_grad_bytes));
      block_.tensors.back().of_step = true;
    }
    if (fused_) drop_returned_gradients();
  }

 private:
  // In the type that will be reduced, until the last microbatch: read the gradient and the sum, write the sum.
  void add_to_whole_gradients(std::uint32_t gradients) {
    Op add;
    add.name = "add to whole gradients";
    add.work = Work::row_memory;
    add.size.bytes = parameters_.all() * (kD + 2 * optimizer_.reduce_bytes());
    add.frees = {gradients};
    block_.backward.push_back(add);
  }

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
  bool kept_;   // parameters stay whole, and whole gradients are summed, from the first microbatch to the last
  bool edge_;   // which the block is for
};

}  // namespace

void divide_parameters(Block& block, const scenario::Scenario& scenario, const BlockParameters& parameters, bool edge) {
  if (parameters.all() == 0) return;
  Division division(block, scenario, parameters, edge);
  if (scenario.optimizer.shards_parameters()) division.gather();
  if (scenario.optimizer.shards_gradients()) division.scatter_gradients();
}

}  // namespace moeplan::plan
