#pragma once
#include <cstdint>
#include <vector>

#include "plan/side_streams.h"
#include "plan/static_memory.h"

namespace moeplan::plan {

// Bytes that a block's parameters or gradients take while they travel: of dense ones, and of experts.
struct TransferBytes {
  std::int64_t dense = 0, experts = 0;
};
TransferBytes gradient_bytes(const BlockParameters& parameters, const scenario::Scenario& scenario);
TransferBytes gathered_bytes(const BlockParameters& parameters, const scenario::Scenario& scenario);

// Transfers over their data-parallel groups, beside the chain.
std::vector<Op> group_transfers(cost::Collective kind, const TransferBytes& bytes, const Shards& members);
// Waits for the parameters that were asked for a block ago.
Op wait_for_parameters();

}  // namespace moeplan::plan
