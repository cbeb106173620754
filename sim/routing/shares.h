#pragma once
#include <cstdint>
#include <vector>

// Log-normal expert shares of one layer (routing generator, steps 1, 3 and 4).
namespace moeplan::routing {

// Inclusion probabilities pi_e of the experts of `layer`: z standard normal, re-standardised over the experts (mean 0,
// population deviation 1), pi_e = min(1, c exp(sigma z_e)) with c so that they sum to top_k. The share is pi_e / top_k.
std::vector<double> lognormal_inclusion(std::int64_t experts, std::int64_t top_k, double sigma, std::uint64_t seed,
                                        std::int64_t layer);

// Whole counts near inclusion * tokens with sum tokens * top_k: floors, then one more by largest remainder (ties: lower
// expert). inclusion must sum to top_k up to rounding.
std::vector<std::int64_t> counts_of_inclusion(const std::vector<double>& inclusion, std::int64_t tokens,
                                              std::int64_t top_k);

}  // namespace moeplan::routing
