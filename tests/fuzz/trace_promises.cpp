#include "trace_promises.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "promise.h"
#include "routing/loads.h"

namespace moeplan::fuzz {
namespace {

using namespace routing;

void check_loads(const Trace& trace, std::int64_t experts, std::int64_t top_k) {
  const auto held = std::make_shared<const Trace>(trace);
  const std::vector<int> ids = {0, 1};
  const TraceMap map{TraceMap::Kind::cyclic, {}};
  if (!trace_faults(trace, experts, top_k, ids, map).empty()) return;
  const StepShape shape{13, 1, 2, 2, 2, experts, top_k};
  const auto loads = make_trace_loads(held, shape, map, Resample::lines, 1);
  std::vector<std::int64_t> whole(static_cast<std::size_t>(experts), 0), parts(whole);
  loads->add_counts({1, 1, 1, 0, 13}, 1, whole);
  loads->add_counts({1, 1, 1, 0, 4}, 1, parts);
  loads->add_counts({1, 1, 1, 4, 13}, 1, parts);
  require(std::accumulate(whole.begin(), whole.end(), std::int64_t{0}) == 13 * top_k, "a slice has tokens x k copies");
  require(whole == parts, "slices add up");
  require(!loads->describe().source.empty(), "loads say what they are");
}

void check_tokens(const TokenTrace& trace) {
  require(trace.top_k >= 1 && trace.tokens() >= 1 && !trace.layer_ids.empty(), "a trace has tokens and layers");
  require(std::is_sorted(trace.layer_ids.begin(), trace.layer_ids.end()), "layers ascend");
  require(trace.experts_of.size() == trace.layer_ids.size(), "an entry a layer");
  require(trace.weights_of.empty() || trace.weights_of.size() == trace.layer_ids.size(), "weights of each layer");
  const auto k = static_cast<std::size_t>(trace.top_k);
  for (const std::vector<std::uint16_t>& ids : trace.experts_of) {
    require(ids.size() == static_cast<std::size_t>(trace.tokens()) * k, "k ids a token");
    for (std::size_t i = 0; i < ids.size(); ++i) {
      require(ids[i] < trace.experts, "ids are experts");
      const auto first = ids.begin() + static_cast<std::ptrdiff_t>(i / k * k);
      require(std::find(first, ids.begin() + static_cast<std::ptrdiff_t>(i), ids[i]) ==
                  ids.begin() + static_cast<std::ptrdiff_t>(i),
              "experts of a token differ");
    }
  }
  for (std::size_t layer = 0; layer < trace.weights_of.size(); ++layer) {
    require(trace.weights_of[layer].size() == trace.experts_of[layer].size(), "a weight an id");
    for (const float weight : trace.weights_of[layer]) require(weight >= 0 && std::isfinite(weight), "finite weights");
  }
  check_loads(trace, std::max(trace.experts, trace.top_k), trace.top_k);
}

void check_counts(const CountTrace& trace) {
  require(!trace.rows.empty() && trace.experts >= 1, "a trace has rows");
  require(trace.counts.size() == trace.rows.size() * static_cast<std::size_t>(trace.experts), "whole rows");
  for (std::size_t row = 0; row < trace.rows.size(); ++row) {
    std::int64_t sum = 0;
    for (const std::int64_t count : trace.row_counts(row)) {
      require(count >= 0, "counts are not negative");
      sum += count;
    }
    require(sum > 0, "rows are not empty");
    require((trace.rows[row].microbatch < 0) == (trace.rows[0].microbatch < 0), "all rows or none have a microbatch");
    require((trace.rows[row].source < 0) == (trace.rows[0].source < 0), "all rows or none have a source");
  }
  for (const std::int64_t k : {1, 2}) {
    if (k <= trace.experts) check_loads(trace, trace.experts, k);
  }
}

}  // namespace

void check_trace(const routing::Trace& trace) {
  if (const auto* tokens = std::get_if<TokenTrace>(&trace)) {
    check_tokens(*tokens);
  } else {
    check_counts(std::get<CountTrace>(trace));
  }
}

}  // namespace moeplan::fuzz
