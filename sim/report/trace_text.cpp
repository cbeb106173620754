#include <fmt/core.h>

#include <algorithm>

#include "report/format.h"
#include "report/report.h"
#include "report/table.h"
#include "report/trace_summary.h"
#include "routing/shape.h"

namespace moeplan::report {
namespace {

std::string head_line(const TraceSummary& summary) {
  std::vector<std::string> parts;
  parts.push_back(routing::counted(static_cast<std::int64_t>(summary.layers.size()), "layer"));
  parts.push_back(fmt::format("{}{}", routing::counted(summary.experts, "expert"),
                              summary.experts_stated ? "" : " (the largest id + 1)"));
  if (summary.top_k) parts.push_back(fmt::format("{} a token", *summary.top_k));
  if (summary.tokens) parts.push_back(routing::counted(*summary.tokens, "token"));
  if (summary.tokens_without_route > 0) {
    parts.push_back(routing::counted(summary.tokens_without_route, "token") + " without a route left out");
  }
  if (summary.lines) parts.push_back(routing::counted(*summary.lines, "line"));
  if (summary.steps) parts.push_back(routing::counted(*summary.steps, "step"));
  parts.emplace_back(summary.kind == "tokens" ? (summary.weights ? "with router weights" : "without router weights")
                                              : "counts only");
  return wrapped("TRACE  ", summary.name + ": " + joined(parts, ", "));
}

std::vector<std::string> cells_of(const std::string& label, const LayerStatistics& layer, const std::string& busiest) {
  std::vector<std::string> cells = {label,   thousands(layer.copies), ratio(layer.max_over_mean),
                                    busiest, ratio(layer.cv),         ratio(layer.gini)};
  for (const double value : layer.rank_max_over_mean) cells.push_back(ratio(value));
  return cells;
}

// Each column by itself: its mean, or its largest value.
LayerStatistics over_layers(const TraceSummary& summary, bool worst) {
  LayerStatistics result;
  result.rank_max_over_mean.resize(summary.ranks.size(), 0.0);
  const auto count = static_cast<double>(summary.layers.size());
  const auto take = [&](double& into, double value) { into = worst ? std::max(into, value) : into + value / count; };
  std::int64_t sum = 0;
  for (const LayerStatistics& layer : summary.layers) {
    sum += layer.copies;
    result.copies = std::max(result.copies, layer.copies);
    take(result.max_over_mean, layer.max_over_mean);
    take(result.cv, layer.cv);
    take(result.gini, layer.gini);
    for (std::size_t r = 0; r < summary.ranks.size(); ++r) {
      take(result.rank_max_over_mean[r], layer.rank_max_over_mean[r]);
    }
  }
  if (!worst) result.copies = sum / static_cast<std::int64_t>(summary.layers.size());
  return result;
}

}  // namespace

std::string trace_text(const routing::Trace& trace, const std::vector<std::int64_t>& ranks) {
  const TraceSummary summary = summarise(trace, ranks);
  std::vector<Table::Column> columns = {{"layer"}, {"copies"}, {"max/mean"}, {"expert"}, {"CV"}, {"Gini"}};
  for (const std::int64_t n : summary.ranks) columns.push_back({fmt::format("EP {} max/mean", n)});
  Table table(std::move(columns));
  for (const LayerStatistics& layer : summary.layers) {
    table.add(cells_of(fmt::format("{}", layer.layer), layer, fmt::format("{}", layer.busiest_expert)));
  }
  if (!summary.layers.empty()) {
    table.add(cells_of("mean", over_layers(summary, false), "-"));
    table.add(cells_of("worst", over_layers(summary, true), "-"));
  }
  std::string text = head_line(summary) + "\n" + table.text();
  text += wrapped(
      "  ", "expert: the busiest of the layer; EP n max/mean: busiest of n ranks that hold equal blocks of experts");
  for (const std::int64_t n : summary.left_out) {
    text += wrapped("  ", fmt::format("EP {} is left out: it does not divide {} experts", n, summary.experts));
  }
  text += "\nChecks\n";
  for (const auto& [check, result] : summary.checks) text += wrapped("  " + check + ": ", result);
  return text;
}

}  // namespace moeplan::report
