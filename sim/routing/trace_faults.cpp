#include <fmt/core.h>

#include <algorithm>
#include <numeric>

#include "routing/loads.h"
#include "routing/shape.h"

namespace moeplan::routing {
namespace {

using TraceFaults = std::vector<std::pair<std::string, std::string>>;

constexpr std::size_t kMostRowsNamed = 3;

// "{1..26}", "{1..3, 7}".
std::string layers_text(const std::vector<std::int64_t>& layers) {
  std::string text;
  for (std::size_t first = 0; first < layers.size();) {
    std::size_t last = first;
    while (last + 1 < layers.size() && layers[last + 1] == layers[last] + 1) ++last;
    text += text.empty() ? "" : ", ";
    text += first == last ? fmt::format("{}", layers[first]) : fmt::format("{}..{}", layers[first], layers[last]);
    first = last + 1;
  }
  return "{" + text + "}";
}

void compare_layers(const std::vector<std::int64_t>& layers, std::span<const int> moe_layer_ids, const TraceMap& map,
                    TraceFaults& faults) {
  if (map.kind == TraceMap::Kind::cyclic) return;
  const std::vector<std::int64_t> wanted(moe_layer_ids.begin(), moe_layer_ids.end());
  if (map.kind == TraceMap::Kind::same) {
    if (layers == wanted) return;
    faults.emplace_back("layers", fmt::format("the trace has the MoE layers {}, the model {}", layers_text(layers),
                                              layers_text(wanted)));
    return;
  }
  if (map.layers.size() != wanted.size()) {
    faults.emplace_back("map of layers", fmt::format("the map has {}, the model {}",
                                                     counted(static_cast<std::int64_t>(map.layers.size()), "layer"),
                                                     counted(static_cast<std::int64_t>(wanted.size()), "MoE layer")));
  }
  for (const std::int64_t layer : map.layers) {
    if (std::binary_search(layers.begin(), layers.end(), layer)) continue;
    faults.emplace_back("map of layers",
                        fmt::format("the map names layer {}, the trace has {}", layer, layers_text(layers)));
    return;
  }
}

// Where a row of counts stands.
std::string row_text(const CountTrace::Row& row) {
  if (row.line > 0) return fmt::format("line {}", row.line);
  std::string text = fmt::format("step {}, layer {}", row.step, row.layer);
  if (row.microbatch >= 0) text += fmt::format(", microbatch {}", row.microbatch);
  if (row.source >= 0) text += fmt::format(", source {}", row.source);
  return text;
}

TraceFaults faults_of(const TokenTrace& trace, std::int64_t experts, std::int64_t top_k) {
  TraceFaults faults;
  if (trace.experts_stated && trace.experts != experts) {
    faults.emplace_back("experts", fmt::format("the trace has {} experts, the model {}", trace.experts, experts));
  } else if (!trace.experts_stated && trace.experts > experts) {
    faults.emplace_back("experts", fmt::format("the trace names expert {} (so at least {} experts), the model has {}",
                                               trace.experts - 1, trace.experts, experts));
  }
  if (trace.top_k != top_k) {
    faults.emplace_back("top_k", fmt::format("the trace has {} experts a token, the model {}", trace.top_k, top_k));
  }
  return faults;
}

TraceFaults faults_of(const CountTrace& trace, std::int64_t experts, std::int64_t top_k) {
  TraceFaults faults;
  if (trace.experts != experts) {
    faults.emplace_back("experts",
                        fmt::format("the trace has counts of {} experts, the model has {}", trace.experts, experts));
  }
  if (trace.top_k > 0 && trace.top_k != top_k) {
    faults.emplace_back("top_k", fmt::format("the trace has {} experts a token, the model {}", trace.top_k, top_k));
    return faults;
  }
  std::size_t wrong = 0;
  for (std::size_t row = 0; row < trace.rows.size() && top_k >= 1; ++row) {
    const std::vector<std::int64_t> counts = trace.row_counts(row);
    const std::int64_t sum = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
    const auto largest = std::max_element(counts.begin(), counts.end());
    std::string message;
    if (sum % top_k != 0) {
      message = fmt::format("{} copies are no multiple of the model's {} experts a token", with_thousands(sum), top_k);
    } else if (*largest > sum / top_k) {
      message = fmt::format(
          "expert {} got {} copies, more than the {} tokens of the row ({} copies, {} experts a token)",
          largest - counts.begin(), with_thousands(*largest), with_thousands(sum / top_k), with_thousands(sum), top_k);
    }
    if (message.empty()) continue;
    if (++wrong <= kMostRowsNamed)
      faults.emplace_back("top_k", fmt::format("{}: {}", row_text(trace.rows[row]), message));
  }
  if (wrong > kMostRowsNamed) {
    faults.emplace_back("top_k", fmt::format("{} more rows are like this", wrong - kMostRowsNamed));
  }
  return faults;
}

}  // namespace

std::vector<std::pair<std::string, std::string>> trace_faults(const Trace& trace, std::int64_t experts,
                                                              std::int64_t top_k, std::span<const int> moe_layer_ids,
                                                              const TraceMap& map) {
  TraceFaults faults = std::visit([&](const auto& held) { return faults_of(held, experts, top_k); }, trace);
  compare_layers(trace_layers(trace), moe_layer_ids, map, faults);
  return faults;
}

}  // namespace moeplan::routing
