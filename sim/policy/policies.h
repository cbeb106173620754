#pragma once
#include <span>
#include <string>

namespace moeplan::policy {

// The table of policies: what `list policies`, --policies and error messages know. `+` joins names ("memfine+lrmoe");
// the order of the table is the order in which they are applied.
struct PolicyEntry {
  std::string name;         // "none", "recompute-moe", "capacity", "memfine", "lrmoe"
  std::string description;  // one line
};
std::span<const PolicyEntry> policy_table();

}  // namespace moeplan::policy
