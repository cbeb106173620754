#include "routing/trace.h"

#include <numeric>

namespace moeplan::routing {

std::int64_t TokenTrace::tokens() const {
  return std::accumulate(line_tokens.begin(), line_tokens.end(), std::int64_t{0});
}

std::span<const std::int64_t> CountTrace::row_counts(std::size_t row) const {
  const auto width = static_cast<std::size_t>(experts);
  return std::span<const std::int64_t>(counts).subspan(row * width, width);
}

}  // namespace moeplan::routing
