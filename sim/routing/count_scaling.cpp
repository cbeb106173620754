#include "routing/count_scaling.h"

#include <algorithm>
#include <numeric>

#include "base/check.h"

namespace moeplan::routing {
namespace {

__extension__ using Wide = unsigned __int128;

}  // namespace

std::vector<std::int64_t> scaled_counts(std::span<const std::int64_t> counts, std::int64_t total) {
  const std::int64_t sum = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  MOEPLAN_CHECK(sum >= 1 && total >= 0, "there is something to scale");
  if (sum == total) return {counts.begin(), counts.end()};  // every quotient is whole
  std::vector<std::int64_t> scaled, remainder;
  std::int64_t missing = total;
  for (const std::int64_t count : counts) {
    const Wide product = static_cast<Wide>(count) * static_cast<Wide>(total);
    scaled.push_back(static_cast<std::int64_t>(product / static_cast<Wide>(sum)));
    remainder.push_back(static_cast<std::int64_t>(product % static_cast<Wide>(sum)));
    missing -= scaled.back();
  }
  std::vector<std::size_t> order(counts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return remainder[a] > remainder[b]; });
  for (std::int64_t i = 0; i < missing; ++i) ++scaled[order[static_cast<std::size_t>(i)]];
  return scaled;
}

}  // namespace moeplan::routing
