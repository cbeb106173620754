#include "scenario/policy_rules.h"

namespace moeplan::scenario {

std::vector<PolicyConflict> policy_conflicts(const Policies& policies, Dispatcher dispatcher,
                                             const topology::Layout& layout) {
  const std::string& name = dispatcher_names()[static_cast<std::size_t>(dispatcher)];
  std::vector<PolicyConflict> conflicts;
  if (policies.lrmoe && dispatcher != Dispatcher::alltoall) {
    conflicts.push_back({"moe.dispatcher", "moe.policies.lrmoe",
                         "lrmoe with the dispatcher " + name + " is not supported in this version; expected alltoall"});
  }
  if (policies.lrmoe && layout.etp > 1) {
    conflicts.push_back({"parallel.expert_tensor_parallel_size", "moe.policies.lrmoe",
                         "lrmoe with expert tensor parallelism is not supported in this version; expected 1"});
  }
  if (policies.memfine && dispatcher == Dispatcher::allgather) {
    conflicts.push_back({"moe.dispatcher", "moe.policies.memfine",
                         "memfine cuts what is exchanged into chunks, and allgather gathers all tokens at once; "
                         "expected alltoall, deepep or hybridep"});
  }
  return conflicts;
}

}  // namespace moeplan::scenario
