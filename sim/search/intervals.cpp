#include "search/intervals.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

namespace moeplan::search {

namespace {

struct Metric {
  Compared ValidationRow::*compared;
  std::optional<Range> ValidationRow::*range;
  bool ValidationRow::*judges;
  double ValidationRow::*deviation;  // null: no cost model has a part in it
};

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  return values[(values.size() - 1) / 2];
}

Intervals intervals_of(const std::vector<ValidationRow>& rows, const Metric& metric) {
  const auto judged = one_a_group(rows, [&](const ValidationRow& row) {
    return row.status == runs::RunStatus::ok && row.*metric.judges && (row.*metric.compared).error() &&
           row.*metric.range;
  });
  Intervals result;
  std::map<std::string, std::size_t> place;  // of a group, by its first row
  std::vector<double> logs, deviations;
  for (const ValidationRow* row : judged) {
    const std::string& group = row->run.group.empty() ? row->run.id : row->run.group;
    const std::size_t at = place.try_emplace(group, place.size()).first->second;
    const Compared& compared = row->*metric.compared;
    if (at % 2 == 0) {
      logs.push_back(std::log(*compared.measured / *compared.predicted));
      if (metric.deviation != nullptr) deviations.push_back(row->*metric.deviation);
      continue;
    }
    const Range& range = *(row->*metric.range);
    ++result.kept_out;
    result.inside += *compared.measured >= range.low && *compared.measured <= range.high ? 1 : 0;
  }
  result.fitted = static_cast<std::int64_t>(logs.size());
  result.deviation = median(std::move(deviations));
  result.form = form_of(std::move(logs), result.deviation);
  return result;
}

}  // namespace

void add_intervals(Validation& validation) {
  validation.step_intervals =
      intervals_of(validation.rows, {&ValidationRow::step_time_s, &ValidationRow::step_range_s,
                                     &ValidationRow::judges_time, &ValidationRow::step_deviation});
  validation.allocated_intervals =
      intervals_of(validation.rows, {&ValidationRow::peak_allocated_bytes, &ValidationRow::allocated_range_bytes,
                                     &ValidationRow::judges_memory, nullptr});
}

}  // namespace moeplan::search
