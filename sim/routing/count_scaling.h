#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace moeplan::routing {

// Whole numbers in proportion to `counts` that sum to `total` (largest remainder, ties: lower expert); exact in 128
// bits. counts >= 0 with a sum in [1, 10^15], total < 2^60. Where no count exceeds sum / k, no result exceeds
// ceil(total / k).
std::vector<std::int64_t> scaled_counts(std::span<const std::int64_t> counts, std::int64_t total);

}  // namespace moeplan::routing
