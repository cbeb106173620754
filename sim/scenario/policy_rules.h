#pragma once
#include <string>
#include <vector>

#include "scenario/scenario.h"

namespace moeplan::scenario {

// A policy that cannot run with a setting of the scenario: stated once for files and for the sets that compare turns
// on.
struct PolicyConflict {
  std::string setting;  // path of the key
  std::string policy;   // path of the policy
  std::string message;
};
std::vector<PolicyConflict> policy_conflicts(const Policies& policies, Dispatcher dispatcher,
                                             const topology::Layout& layout);

}  // namespace moeplan::scenario
