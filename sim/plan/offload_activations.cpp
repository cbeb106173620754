#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "plan/side_streams.h"

namespace moeplan::plan {

namespace {

using scenario::OffloadModule;

// Saved tensors by the module that Megatron names: what the module reads. Chunks of a tensor carry its name first.
std::vector<std::string_view> saved_by(OffloadModule module) {
  switch (module) {
    case OffloadModule::attn_norm:
      return {"layer input"};
    case OffloadModule::qkv_linear:
      return {"attention norm output", "attention norm output, quantised"};
    case OffloadModule::core_attn:
      return {"query", "key", "value", "attention probabilities"};
    case OffloadModule::attn_proj:
      return {"attention output", "attention output, quantised"};
    case OffloadModule::mlp_norm:
      return {"attention residual"};
    case OffloadModule::expert_fc1:
      return {"expert input", "received rows", "expert input, quantised"};
    case OffloadModule::moe_act:
      return {"expert gate-up output"};
  }
  return {};
}

bool uses(const std::vector<Op>& ops, std::uint32_t id, bool frees) {
  return std::any_of(ops.begin(), ops.end(), [&](const Op& op) {
    const auto& list = frees ? op.frees : op.allocates;
    return std::find(list.begin(), list.end(), id) != list.end();
  });
}

// Alive between forward and backward.
bool kept(const Block& block, std::uint32_t id) {
  return uses(block.forward, id, false) && !uses(block.forward, id, true) && uses(block.backward, id, true);
}

Op copy(const Tensor& tensor, Stream stream) {
  Op op;
  op.name = (stream == Stream::to_host ? "to the host: " : "from the host: ") + tensor.name;
  op.work = Work::host_copy;
  op.family = Family::communication;
  op.stream = stream;
  op.asynchronous = true;
  op.size = tensor.size;
  return op;
}

}  // namespace

void offload_activations(Block& block, const scenario::Scenario& scenario) {
  std::vector<std::uint32_t> moved;
  for (const OffloadModule module : scenario.memory.offload_modules) {
    for (const std::string_view name : saved_by(module)) {
      for (std::uint32_t id = 0; id < block.tensors.size(); ++id) {
        const std::string& full = block.tensors[id].name;
        if (full.substr(0, full.find(" (chunk ")) == name && kept(block, id)) moved.push_back(id);
      }
    }
  }
  if (moved.empty()) return;
  std::vector<Op> back;
  Op wait;
  wait.name = "saved activations are back";
  wait.work = Work::fixed;
  wait.joins = stream_bit(Stream::from_host);
  wait.allocates = moved;
  back.push_back(wait);
  for (const std::uint32_t id : moved) {
    block.forward.push_back(copy(block.tensors[id], Stream::to_host));
    // The copy back may overtake the last copies out only where it was asked for before they ended.
    back.push_back(copy(block.tensors[id], Stream::from_host));
  }
  block.forward.back().frees.insert(block.forward.back().frees.end(), moved.begin(), moved.end());
  block.backward.insert(block.backward.begin(), back.begin(), back.end());
}

}  // namespace moeplan::plan
