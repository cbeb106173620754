#include <initializer_list>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "plan/side_streams.h"

namespace moeplan::plan {

namespace {

using scenario::CudaGraphs;

constexpr std::uint16_t kCallsOfReplay = 4;  // an autograd function around the graph, and copies of its inputs

bool starts_with_any(std::string_view name, std::initializer_list<std::string_view> starts) {
  for (const std::string_view start : starts)
    if (name.starts_with(start)) return true;
  return false;
}

// Megatron's scopes, each of forward and backward of what it names.
bool in_scope(const Block& block, const Op& op, const std::set<std::string>& scopes) {
  if (scopes.empty()) return true;  // whole layers
  const bool attention =
      op.family == Family::attention || starts_with_any(op.name, {"attention", "latent", "gather keys", "reduce key"});
  if (attention) return scopes.contains("attn");
  if (block.name != "MoE layer") return scopes.contains("mlp");
  if (scopes.contains("moe")) return true;
  const bool shared = op.name.starts_with("shared expert");
  // The router's graph holds the norm before it and the shared expert, which runs there where it is not overlapped.
  if (scopes.contains("moe_router") && (shared || starts_with_any(op.name, {"MoE norm", "router"}))) return true;
  if (scopes.contains("shared_experts") && shared) return true;
  return scopes.contains("moe_preprocess") &&
         (op.name == "permute" || op.name == "dispatch layout" || op.name == "dispatch preprocessing");
}

}  // namespace

void capture_graphs(Block& block, const scenario::Scenario& scenario) {
  const auto& training = scenario.training;
  if (training.cuda_graphs == CudaGraphs::none) return;
  const bool whole =
      training.cuda_graphs == CudaGraphs::full_iteration || training.cuda_graph_scope.contains("full_iteration");
  const bool layer = block.name == "dense layer" || block.name == "MoE layer";
  if (!whole && !layer) return;
  for (auto* ops : {&block.forward, &block.backward}) {
    bool open = false;        // a graph is being replayed
    std::vector<Op*> handed;  // hand-overs, no operations: into what the next operation is part of
    for (Op& op : *ops) {
      if (op.work == Work::fixed && op.launches == 0) {
        handed.push_back(&op);
        continue;
      }
      const bool captured = whole || (!op.host_sync && in_scope(block, op, training.cuda_graph_scope));
      if (whole) op.host_sync = false;
      if (captured && (open || whole)) op.captured = true;
      if (captured && !open && !whole) {  // the graph is replayed: inputs are handed over, one launch
        op.launches = 1;
        op.calls = op.calls > 0 ? kCallsOfReplay : std::uint16_t{0};
      }
      open = captured;
      op.in_graph = captured;
      for (Op* hand_over : handed) hand_over->in_graph = captured;
      handed.clear();
    }
  }
}

}  // namespace moeplan::plan
