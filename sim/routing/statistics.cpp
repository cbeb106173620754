#include "routing/statistics.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "routing/count_rows.h"

namespace moeplan::routing {
double max_over_mean(std::span<const std::int64_t> counts) {
  return rank_max_over_mean(counts, static_cast<std::int64_t>(counts.size()));
}

double coefficient_of_variation(std::span<const std::int64_t> counts) {
  MOEPLAN_CHECK(!counts.empty(), "no experts");
  const std::int64_t total = sum_of(counts);
  if (total == 0) return 0.0;
  const double size = static_cast<double>(counts.size());
  const double mean = static_cast<double>(total) / size;
  double squares = 0.0;
  for (const std::int64_t count : counts) {
    const double difference = static_cast<double>(count) - mean;
    squares += difference * difference;
  }
  return std::sqrt(squares / size) / mean;
}

double gini(std::span<const std::int64_t> counts) {
  MOEPLAN_CHECK(!counts.empty(), "no experts");
  const std::int64_t total = sum_of(counts);
  if (total == 0) return 0.0;
  std::vector<std::int64_t> sorted(counts.begin(), counts.end());
  std::sort(sorted.begin(), sorted.end());
  const double size = static_cast<double>(sorted.size());
  double weighted = 0.0;  // sum of rank x value, ranks from 1
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    weighted += static_cast<double>(i + 1) * static_cast<double>(sorted[i]);
  }
  return 2.0 * weighted / (size * static_cast<double>(total)) - (size + 1.0) / size;
}

double rank_max_over_mean(std::span<const std::int64_t> counts, std::int64_t ranks) {
  const auto size = static_cast<std::int64_t>(counts.size());
  MOEPLAN_CHECK(ranks >= 1 && size >= 1 && size % ranks == 0, "ranks must divide the experts");
  const std::int64_t total = sum_of(counts);
  if (total == 0) return 0.0;
  const auto block = static_cast<std::size_t>(size / ranks);
  std::int64_t largest = 0;
  for (std::size_t first = 0; first < counts.size(); first += block) {
    largest = std::max(largest, sum_of(counts.subspan(first, block)));
  }
  return static_cast<double>(largest) * static_cast<double>(ranks) / static_cast<double>(total);
}

}  // namespace moeplan::routing
