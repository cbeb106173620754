#pragma once
#include <cstdint>
#include <memory>

#include "policy/decision.h"

namespace moeplan::policy {

// Expert capacity, as Megatron's --moe-expert-capacity-factor, --moe-pad-expert-input-to-capacity and
// --moe-token-drop-policy.
struct CapacitySettings {
  double factor = 1.0;
  bool pad = false;  // every source sends exactly the capacity to each expert
  enum class DropPolicy { probs, position };
  DropPolicy drop_policy = DropPolicy::probs;
};

// C = ceil(factor * k * tokens / experts) rows that a source may send to one expert; at most its tokens, of which each
// may go there once.
std::int64_t expert_capacity(double factor, std::int64_t tokens, std::int64_t top_k, std::int64_t experts);

// Cuts the pairs of each source and expert to the capacity: kept are those with the largest router weights (probs;
// equal ones, and sources without weights: the earlier tokens), or the earliest (position). Policies after it see what
// is left. With pad, forward rows are the capacity everywhere, of a chunk its even share, whatever is routed.
std::unique_ptr<Policy> make_capacity(const CapacitySettings& settings);

}  // namespace moeplan::policy
