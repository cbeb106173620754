#include "search/validate_summary.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <set>
#include <tuple>

namespace moeplan::search {
namespace {

using Errors = std::vector<std::pair<std::string, double>>;
using Rows = std::vector<const ValidationRow*>;
using Metric = Compared ValidationRow::*;

std::string variant_of(const runs::Run& run) {
  const auto text = [&](const char* column) {
    const auto cell = run.cells.find(std::string_view(column));
    return cell == run.cells.end() ? std::string() : cell->second.text;
  };
  return text("recompute") + "|" + text("recompute_modules") + "|" + text("ep_overlap");
}

// A row without a group is a group by itself.
std::string group_of(const ValidationRow& row) { return row.run.group.empty() ? "id " + row.run.id : row.run.group; }

bool judged(const ValidationRow& row, Metric metric) {
  return metric == &ValidationRow::step_time_s ? row.judges_time : row.judges_memory;
}

Rows rows_of(const std::vector<ValidationRow>& rows, Metric metric) {
  return one_a_group(rows, [&](const ValidationRow& row) {
    return row.status == runs::RunStatus::ok && judged(row, metric) && (row.*metric).error().has_value();
  });
}

ErrorSummary summary_of(const Rows& rows, Metric metric, const char* column, const std::string& value) {
  Errors errors;
  for (const ValidationRow* row : rows) {
    if (column != nullptr) {
      const auto cell = row->run.cells.find(std::string_view(column));
      if (cell == row->run.cells.end() || cell->second.text != value) continue;
    }
    errors.emplace_back(row->run.id, *(row->*metric).error());
  }
  return summarize(errors);
}

ErrorSummary rank_summary(const std::vector<ValidationRow>& rows, Compared RankCompared::*metric) {
  const auto counts = [&](const ValidationRow& row) {
    return row.status == runs::RunStatus::ok && row.judges_memory &&
           std::any_of(row.ranks.begin(), row.ranks.end(),
                       [&](const RankCompared& rank) { return (rank.*metric).error().has_value(); });
  };
  Errors errors;
  for (const ValidationRow* row : one_a_group(rows, counts)) {
    for (const RankCompared& rank : row->ranks) {
      const std::optional<double> error = (rank.*metric).error();
      if (error) errors.emplace_back(row->run.id + " rank " + std::to_string(rank.rank), *error);
    }
  }
  return summarize(errors);
}

}  // namespace

std::vector<const ValidationRow*> one_a_group(const std::vector<ValidationRow>& rows,
                                              const std::function<bool(const ValidationRow&)>& counts) {
  // Deliberate variants are seen in the whole table, whatever of it counts.
  std::map<std::pair<std::string, std::string>, std::string> first_variant;
  std::set<std::string> has_variants;
  for (const ValidationRow& row : rows) {
    const std::string variant = variant_of(row.run);
    const auto [first, is_new] = first_variant.emplace(std::pair(group_of(row), row.run.release), variant);
    if (!is_new && first->second != variant) has_variants.insert(group_of(row));
  }
  std::vector<const ValidationRow*> result;
  std::set<std::pair<std::string, std::string>> seen;
  for (const ValidationRow& row : rows) {
    if (!counts(row)) continue;
    const std::string group = group_of(row);
    if (seen.emplace(group, has_variants.contains(group) ? variant_of(row.run) : "").second) result.push_back(&row);
  }
  return result;
}

ErrorSummary summarize(const std::vector<std::pair<std::string, double>>& errors) {
  ErrorSummary summary;
  if (errors.empty()) return summary;
  std::vector<double> sizes;
  for (const auto& [id, error] : errors) {
    const double size = std::abs(error);
    sizes.push_back(size);
    summary.mean += error;
    summary.mean_absolute += size;
    summary.over += error > 0 ? 1 : 0;
    summary.under += error < 0 ? 1 : 0;
    if (size > std::abs(summary.worst) || summary.worst_id.empty()) {
      summary.worst = error;
      summary.worst_id = id;
    }
  }
  const auto n = static_cast<double>(errors.size());
  summary.n = static_cast<std::int64_t>(errors.size());
  summary.mean /= n;
  summary.mean_absolute /= n;
  std::sort(sizes.begin(), sizes.end());
  const std::size_t half = sizes.size() / 2;
  summary.median_absolute = sizes.size() % 2 == 1 ? sizes[half] : (sizes[half - 1] + sizes[half]) / 2;
  return summary;
}

void add_summaries(Validation& validation) {
  for (const ValidationRow& row : validation.rows) {
    validation.ok += row.status == runs::RunStatus::ok ? 1 : 0;
    validation.skipped += row.status == runs::RunStatus::skipped ? 1 : 0;
    validation.errors += row.status == runs::RunStatus::error ? 1 : 0;
  }
  constexpr std::array<Metric, 4> kMetrics = {&ValidationRow::step_time_s, &ValidationRow::peak_allocated_bytes,
                                              &ValidationRow::peak_reserved_bytes, &ValidationRow::peak_device_bytes};
  std::array<Rows, 4> rows;
  std::set<const ValidationRow*> in_any;
  for (std::size_t m = 0; m < kMetrics.size(); ++m) {
    rows[m] = rows_of(validation.rows, kMetrics[m]);
    in_any.insert(rows[m].begin(), rows[m].end());
  }
  validation.judged = static_cast<std::int64_t>(in_any.size());
  const auto line = [&](const char* by, const char* column, const std::string& value) {
    std::array<ErrorSummary, 4> s;
    for (std::size_t m = 0; m < kMetrics.size(); ++m) s[m] = summary_of(rows[m], kMetrics[m], column, value);
    if (column == nullptr || s[0].n + s[1].n + s[2].n + s[3].n > 0) {
      validation.summary.push_back({by, value, s[0], s[1], s[2], s[3]});
    }
  };
  line("total", nullptr, "");
  for (const char* column : {"model", "gpu", "framework", "routing"}) {
    std::set<std::string> values;
    for (const ValidationRow& row : validation.rows) {
      const auto cell = row.run.cells.find(std::string_view(column));
      if (cell != row.run.cells.end()) values.insert(cell->second.text);
    }
    for (const std::string& value : values) line(column, column, value);
  }
  validation.rank_allocated = rank_summary(validation.rows, &RankCompared::allocated);
  validation.rank_reserved = rank_summary(validation.rows, &RankCompared::reserved);
}

}  // namespace moeplan::search
