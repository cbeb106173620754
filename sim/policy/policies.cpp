#include "policy/policies.h"

#include <array>

namespace moeplan::policy {

std::span<const PolicyEntry> policy_table() {
  static const std::array<PolicyEntry, 5> table = {{
      {"none", "routed activations are kept from forward to backward; experts stay at home"},
      {"recompute-moe", "the routed part of a layer is run again in backward (Megatron's recompute module moe)"},
      {"capacity", "rows of a source to an expert are cut to a capacity, optionally padded to it (dropped pairs)"},
      {"memfine", "token chunks with chunked recomputation, a fixed count or the adaptive rule (MemFine)"},
      {"lrmoe", "backward keeps the pairs with the largest scores within row quotas (LRMoE, our formulation)"},
  }};
  return table;
}

}  // namespace moeplan::policy
