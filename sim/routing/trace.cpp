#include "routing/trace.h"

#include <filesystem>
#include <numeric>
#include <set>

namespace moeplan::routing {

std::int64_t TokenTrace::tokens() const {
  return std::accumulate(line_tokens.begin(), line_tokens.end(), std::int64_t{0});
}

std::vector<std::int64_t> trace_layers(const Trace& trace) {
  std::set<std::int64_t> layers;
  if (const auto* tokens = std::get_if<TokenTrace>(&trace)) {
    layers.insert(tokens->layer_ids.begin(), tokens->layer_ids.end());
  } else {
    for (const CountTrace::Row& row : std::get<CountTrace>(trace).rows) layers.insert(row.layer);
  }
  return {layers.begin(), layers.end()};
}

TracePath split_trace_path(const std::string& path) {
  std::error_code failed;
  const std::size_t mark = path.rfind('#');
  if (mark == std::string::npos || mark == 0 || std::filesystem::exists(path, failed)) return {path, {}};
  return {path.substr(0, mark), path.substr(mark + 1)};
}

std::vector<std::int64_t> CountTrace::row_counts(std::size_t row) const {
  const auto width = static_cast<std::size_t>(experts);
  return counts.part(row * width, width);
}

}  // namespace moeplan::routing
