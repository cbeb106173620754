#pragma once
#include <cstdint>
#include <vector>

// Rows over experts, groups or ranks. Plain C++17.
namespace moeplan::layer {

// Weights by rank: 1 / rank^exponent; 0 is uniform.
std::vector<double> zipf_weights(int experts, double exponent);

// `weights` (>= 0, one positive) scaled to whole numbers whose sum is `total`, none above `most_each` (of which so many
// as there are weights hold the total): what one cannot take goes to the others in proportion. Largest remainders
// round, of equal ones the first.
std::vector<std::int64_t> spread_rows(const std::vector<double>& weights, std::int64_t total, std::int64_t most_each);

}  // namespace moeplan::layer
