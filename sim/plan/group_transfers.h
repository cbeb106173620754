#pragma once
#include <cstdint>
#include <vector>

#include "plan/side_streams.h"
#include "plan/static_memory.h"

namespace moeplan::plan {

// Transfers of a block's parameters or gradients over their data-parallel groups, beside the chain.
std::vector<Op> group_transfers(cost::Collective kind, const BlockParameters& parameters, const Shards& members,
                                std::int64_t element_bytes);
// Waits for the parameters that were asked for a block ago.
Op wait_for_parameters();

}  // namespace moeplan::plan
