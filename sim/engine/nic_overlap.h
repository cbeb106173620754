#pragma once
#include <cstdint>
#include <optional>

#include "plan/plan.h"

namespace moeplan::engine {

// For how long transfers run at the same time over a rank's NIC in one direction (an exchange, rings of a collective, a
// pipeline transfer), by a step in which each runs as if it were alone. Seconds of a step.
struct NicOverlap {
  double mean_s = 0;  // over the first rank of each stage
  double worst_s = 0;
  std::int64_t worst_rank = 0;
  double busy_s = 0;  // mean: some transfer runs
};

// Nothing where the step has more ops than are gone through one by one for this.
std::optional<NicOverlap> nic_overlap(const plan::Plan& plan, std::int64_t ops);

}  // namespace moeplan::engine
