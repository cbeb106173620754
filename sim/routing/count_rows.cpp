#include "routing/count_rows.h"

#include <fmt/core.h>

#include <numeric>

namespace moeplan::routing {

std::string row_fault(std::span<const std::int64_t> counts) {
  std::int64_t sum = 0;
  for (std::size_t e = 0; e < counts.size(); ++e) {
    if (counts[e] < 0) return fmt::format("the count of expert {} is negative: {}", e, counts[e]);
    if (counts[e] > kLargestSum - sum) return "the counts of the row sum to more than 10^15";
    sum += counts[e];
  }
  return sum == 0 ? "all counts of the row are 0" : "";
}

std::int64_t sum_of(std::span<const std::int64_t> counts) {
  return std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
}

}  // namespace moeplan::routing
