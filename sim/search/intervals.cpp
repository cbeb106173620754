#include "search/intervals.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>

namespace moeplan::search {

namespace {

struct Metric {
  Compared ValidationRow::*compared;
  std::optional<Range> ValidationRow::*range;
  bool ValidationRow::*judges;
  double ValidationRow::*deviation;  // null: no cost model has a part in it
  bool fits = true;                  // half of the groups tell; else all are judged
};

// Whether the run is known in full. What a row leaves open is an error of the row, which a scenario does not have.
bool all_stated(const ValidationRow& row) { return row.run.grade.empty() || row.run.grade == "A"; }

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[(values.size() - 1) / 2];
}

// FNV-1a.
std::uint32_t hash_of(const std::string& text) {
  std::uint32_t hash = 2166136261U;
  for (const char c : text) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  return hash;
}

Intervals intervals_of(const std::vector<ValidationRow>& rows, const Metric& metric,
                       const std::function<bool(const ValidationRow&)>& counts = {}) {
  const auto judged = one_a_group(rows, [&](const ValidationRow& row) {
    return row.status == runs::RunStatus::ok && row.*metric.judges && (row.*metric.compared).error() &&
           row.*metric.range && (!counts || counts(row));
  });
  Intervals result;
  std::vector<double> scores, widths;
  for (const ValidationRow* row : judged) {
    const Compared& compared = row->*metric.compared;
    if (metric.fits && tells_form(row->run.group.empty() ? row->run.id : row->run.group)) {
      const double deviation = metric.deviation == nullptr ? 1.0 : row->*metric.deviation;
      if (deviation > 0) scores.push_back(std::log(*compared.measured / *compared.predicted) / deviation);
      continue;
    }
    const Range& range = *(row->*metric.range);
    ++result.kept_out;
    widths.push_back(range.high / range.low);
    result.inside += *compared.measured >= range.low && *compared.measured <= range.high ? 1 : 0;
  }
  result.fitted = static_cast<std::int64_t>(scores.size());
  result.width = median(std::move(widths));
  result.form = form_of(std::move(scores));
  return result;
}

}  // namespace

bool tells_form(const std::string& group) { return (hash_of(group) >> 16) % 2 == 0; }

void add_intervals(Validation& validation) {
  const Metric step = {&ValidationRow::step_time_s, &ValidationRow::step_range_s, &ValidationRow::judges_time,
                       &ValidationRow::step_deviation};
  validation.step_intervals = intervals_of(validation.rows, step, all_stated);
  Metric judged = step;
  judged.fits = false;
  validation.step_intervals_not_all_stated =
      intervals_of(validation.rows, judged, [](const ValidationRow& row) { return !all_stated(row); });
  for (const auto& [name, framework] : {std::pair("megatron", scenario::Framework::megatron),
                                        std::pair("torchtitan", scenario::Framework::torchtitan)}) {
    Intervals of = intervals_of(validation.rows, step, [framework = framework](const ValidationRow& row) {
      return all_stated(row) && row.simulated_as == framework;
    });
    if (of.fitted + of.kept_out > 0) validation.step_intervals_by_framework.emplace_back(name, of);
  }
  validation.allocated_intervals =
      intervals_of(validation.rows, {&ValidationRow::peak_allocated_bytes, &ValidationRow::allocated_range_bytes,
                                     &ValidationRow::judges_memory, nullptr});
}

}  // namespace moeplan::search
