#include "report/trace_summary.h"

#include <fmt/core.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <set>
#include <span>

#include "report/format.h"
#include "routing/statistics.h"

namespace moeplan::report {
namespace {

using Counts = std::vector<std::int64_t>;

LayerStatistics statistics_of(std::int64_t layer, const Counts& counts, const std::vector<std::int64_t>& ranks) {
  LayerStatistics result;
  result.layer = layer;
  result.copies = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  if (counts.empty()) return result;
  result.max_over_mean = routing::max_over_mean(counts);
  result.cv = routing::coefficient_of_variation(counts);
  result.gini = routing::gini(counts);
  result.busiest_expert = std::max_element(counts.begin(), counts.end()) - counts.begin();
  for (const std::int64_t n : ranks) result.rank_max_over_mean.push_back(routing::rank_max_over_mean(counts, n));
  return result;
}

void sort_ranks(const std::vector<std::int64_t>& asked, TraceSummary& summary) {
  for (const std::int64_t n : std::set<std::int64_t>(asked.begin(), asked.end())) {
    const bool divides = n >= 1 && summary.experts > 0 && summary.experts % n == 0;
    (divides ? summary.ranks : summary.left_out).push_back(n);
  }
}

// Counts of one layer; ids outside the experts are counted in `outside`, tokens that name an expert twice in
// `repeated`.
Counts count_tokens(const routing::TokenTrace& trace, std::span<const std::uint16_t> ids, std::int64_t& outside,
                    std::int64_t& repeated) {
  Counts counts(static_cast<std::size_t>(trace.experts), 0);
  const auto k = static_cast<std::size_t>(trace.top_k);
  for (std::size_t i = 0; i < ids.size(); ++i) {
    if (ids[i] < counts.size()) {
      ++counts[ids[i]];
    } else {
      ++outside;
    }
    if (k == 0) continue;
    const auto token = ids.subspan(i / k * k, i % k);
    if (std::find(token.begin(), token.end(), ids[i]) != token.end()) ++repeated;
  }
  return counts;
}

TraceSummary of_tokens(const routing::TokenTrace& trace, const std::vector<std::int64_t>& ranks) {
  TraceSummary summary;
  summary.name = without_absolute_paths(trace.name);
  summary.kind = "tokens";
  summary.experts = trace.experts;
  summary.experts_stated = trace.experts_stated;
  summary.top_k = trace.top_k;
  summary.tokens = trace.tokens();
  summary.lines = static_cast<std::int64_t>(trace.line_tokens.size());
  summary.tokens_without_route = trace.left_out;
  summary.weights = !trace.weights_of.empty();
  sort_ranks(ranks, summary);
  std::int64_t outside = 0, repeated = 0;
  std::string wrong_sum;
  for (std::size_t l = 0; l < trace.layer_ids.size(); ++l) {
    const Counts counts = count_tokens(trace, trace.experts_of[l], outside, repeated);
    summary.layers.push_back(statistics_of(trace.layer_ids[l], counts, summary.ranks));
    const std::int64_t expected = trace.tokens() * trace.top_k;
    if (summary.layers.back().copies != expected && wrong_sum.empty()) {
      wrong_sum = fmt::format("layer {} has {} copies, expected {}", trace.layer_ids[l], summary.layers.back().copies,
                              expected);
    }
  }
  summary.checks = {
      {"copies_are_tokens_times_top_k", wrong_sum.empty() ? "ok" : wrong_sum},
      {"ids_are_experts", outside == 0 ? "ok" : fmt::format("{} ids are above the last expert", outside)},
      {"experts_of_a_token_differ", repeated == 0 ? "ok" : fmt::format("{} repeated choices", repeated)},
  };
  return summary;
}

TraceSummary of_counts(const routing::CountTrace& trace, const std::vector<std::int64_t>& ranks) {
  TraceSummary summary;
  summary.name = without_absolute_paths(trace.name);
  summary.kind = "counts";
  summary.experts = trace.experts;
  if (trace.top_k > 0) summary.top_k = trace.top_k;
  sort_ranks(ranks, summary);
  std::map<std::int64_t, Counts> by_layer;
  std::set<std::int64_t> steps;
  std::int64_t negative = 0, empty_rows = 0;
  for (std::size_t r = 0; r < trace.rows.size(); ++r) {
    steps.insert(trace.rows[r].step);
    Counts& sum = by_layer[trace.rows[r].layer];
    sum.resize(static_cast<std::size_t>(trace.experts), 0);
    const std::vector<std::int64_t> row = trace.row_counts(r);
    std::int64_t total = 0;
    for (std::size_t e = 0; e < row.size(); ++e) {
      sum[e] += row[e];
      total += row[e];
      if (row[e] < 0) ++negative;
    }
    if (total == 0) ++empty_rows;
  }
  summary.steps = static_cast<std::int64_t>(steps.size());
  for (const auto& [layer, counts] : by_layer) summary.layers.push_back(statistics_of(layer, counts, summary.ranks));
  summary.checks = {
      {"counts_are_not_negative", negative == 0 ? "ok" : fmt::format("{} negative counts", negative)},
      {"rows_are_not_empty", empty_rows == 0 ? "ok" : fmt::format("{} rows sum to 0", empty_rows)},
  };
  return summary;
}

}  // namespace

TraceSummary summarise(const routing::Trace& trace, const std::vector<std::int64_t>& ranks) {
  if (const auto* tokens = std::get_if<routing::TokenTrace>(&trace)) return of_tokens(*tokens, ranks);
  return of_counts(std::get<routing::CountTrace>(trace), ranks);
}

bool trace_is_sound(const routing::Trace& trace) {
  const TraceSummary summary = summarise(trace, {});
  return std::all_of(summary.checks.begin(), summary.checks.end(),
                     [](const auto& check) { return check.second == "ok"; });
}

}  // namespace moeplan::report
