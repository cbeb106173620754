#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "runs/run_table.h"
#include "topology/layout.h"

namespace moeplan::search {

// Whose memory a measured run reports.
enum class Scope {
  highest,     // the maximum over all ranks
  first_rank,  // rank 0
  last_rank,   // the last rank, of the last pipeline stage: Megatron's tensorboard writer
  logged,      // the maximum over the ranks that Megatron prints: data-parallel rank 0 of each model-parallel position
};

// From the cell memory_scope. "logged rank" is rank 0 for torchtitan, which logs there. Nothing known: the highest.
Scope scope_of(const runs::Run& run);
std::string scope_name(Scope scope);

// The ranks that the scope takes the maximum over, ascending; at least one.
std::vector<std::int64_t> ranks_in(Scope scope, const topology::Layout& layout);

}  // namespace moeplan::search
