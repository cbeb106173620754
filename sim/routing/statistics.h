#pragma once
#include <cstdint>
#include <span>
#include <vector>

// Imbalance statistics of one layer's tokens per expert (at least one expert). All are 0 when there are no tokens.
namespace moeplan::routing {

double max_over_mean(std::span<const std::int64_t> counts);
double coefficient_of_variation(std::span<const std::int64_t> counts);  // population
double gini(std::span<const std::int64_t> counts);
// Experts cut into `ranks` contiguous equal blocks (Megatron's placement): largest block sum over the mean; ranks must divide the count.
double rank_max_over_mean(std::span<const std::int64_t> counts, std::int64_t ranks);

}  // namespace moeplan::routing
