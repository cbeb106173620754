#include <fmt/core.h>

#include <algorithm>

#include "report/format.h"
#include "report/report.h"
#include "report/table.h"
#include "report/validate_tables.h"

namespace moeplan::report {
namespace {

std::string size_percent(double fraction) { return fmt::format("{:.1f} %", 100 * fraction); }

std::string share(std::int64_t part, std::int64_t count) {
  return fmt::format("{:.0f} %", 100.0 * static_cast<double>(part) / static_cast<double>(count));
}

std::string summary_text(const search::OperatorValidation& validation) {
  Table table({{"of", Align::left},
               {"", Align::left},
               {"rows"},
               {"median |error|"},
               {"p90 |error|"},
               {"mean error"},
               {"over"},
               {"under"}});
  for (const search::OperatorSummary& s : validation.summary) {
    if (s.count == 0) continue;
    table.add({s.by, s.value, std::to_string(s.count), size_percent(s.median_absolute), size_percent(s.p90_absolute),
               signed_percent(s.mean), share(s.over, s.count), share(s.under, s.count)});
  }
  return table.empty() ? std::string() : "\nErrors, predicted / measured - 1\n" + table.text();
}

// Rows that say the same stand in one line, in the order of their first; the first few are named.
std::string reasons_text(const search::OperatorValidation& validation, measurements::Status status, const char* title) {
  constexpr std::size_t kMostNamed = 6;
  std::vector<std::pair<std::string, std::vector<std::string>>> reasons;
  for (const search::OperatorRow& row : validation.rows) {
    if (row.status != status) continue;
    auto same =
        std::find_if(reasons.begin(), reasons.end(), [&](const auto& entry) { return entry.first == row.reason; });
    if (same == reasons.end()) same = reasons.insert(reasons.end(), {row.reason, {}});
    same->second.push_back(row.measurement->id);
  }
  std::string text = reasons.empty() ? "" : std::string("\n") + title + "\n";
  for (auto& [reason, ids] : reasons) {
    const std::size_t count = ids.size();
    ids.resize(std::min(count, kMostNamed));
    text += wrapped(fmt::format("  {:>4}  ", count),
                    without_absolute_paths(reason) + ": " + joined(ids, " ") + (count > kMostNamed ? " ..." : ""));
  }
  return text;
}

}  // namespace

std::string operators_text(const search::OperatorValidation& validation) {
  std::string text = fmt::format("{} of {} operations predicted, {} skipped, {} with errors\n", validation.ok,
                                 validation.rows.size(), validation.skipped, validation.errors);
  text += summary_text(validation);
  text += reasons_text(validation, measurements::Status::error, "Rows with errors");
  text += reasons_text(validation, measurements::Status::skipped, "Rows that are not predicted");
  for (const std::string& note : validation.notes) text += "\n" + wrapped("Note  ", note);
  return text;
}

}  // namespace moeplan::report
