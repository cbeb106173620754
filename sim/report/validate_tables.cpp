#include "report/validate_tables.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/units.h"
#include "report/format.h"

namespace moeplan::report {
namespace {

using search::Compared;
using search::ErrorSummary;
using search::SummaryLine;
using search::ValidationRow;

std::string plain_percent(double fraction) {
  return fmt::format("{:.{}f} %", 100.0 * fraction, fraction < 0.1 ? 2 : 1);
}

std::vector<std::string> summary_cells(const std::string& by, const std::string& value, const ErrorSummary& s) {
  return {by,
          value,
          std::to_string(s.n),
          plain_percent(s.mean_absolute),
          plain_percent(s.median_absolute),
          signed_percent(s.mean),
          fmt::format("{} / {}", s.over, s.under),
          signed_percent(s.worst),
          s.worst_id};
}

std::vector<Table::Column> summary_columns() {
  return {{"of", Align::left}, {"", Align::left}, {"n"},     {"mean |error|"},    {"median |error|"},
          {"mean error"},      {"over / under"},  {"worst"}, {"row", Align::left}};
}

void add_summary(const search::Validation& validation, const char* title, ErrorSummary SummaryLine::*metric,
                 std::vector<ValidationPart>& parts) {
  ValidationPart part{title, "", summary_columns(), {}};
  for (const SummaryLine& line : validation.summary) {
    const ErrorSummary& s = line.*metric;
    const std::string value = line.by == "total" ? "" : line.value.empty() ? "not stated" : line.value;
    if (s.n > 0) part.rows.push_back(summary_cells(line.by, value, s));
  }
  if (!part.rows.empty()) parts.push_back(std::move(part));
}

void add_ranks(const search::Validation& validation, std::vector<ValidationPart>& parts) {
  ValidationPart part{"Rank by rank", "Every rank of the rows that have figures a rank.", summary_columns(), {}};
  for (const auto& [name, s] :
       {std::pair("allocated", validation.rank_allocated), std::pair("reserved", validation.rank_reserved)}) {
    if (s.n > 0) part.rows.push_back(summary_cells(name, "", s));
  }
  if (!part.rows.empty()) parts.push_back(std::move(part));
}

std::string time_cell(const std::optional<double>& seconds) { return seconds ? base::format_time(*seconds) : "-"; }
std::string gib_cell(const std::optional<double>& bytes) {
  return bytes ? fmt::format("{:.3f}", *bytes / base::kGiB) : "-";
}

void add_cells(const Compared& compared, std::string (*cell)(const std::optional<double>&),
               std::vector<std::string>& cells) {
  cells.push_back(cell(compared.measured));
  cells.push_back(cell(compared.predicted));
  cells.push_back(signed_percent(compared.error()));
}

void add_times(const search::Validation& validation, std::vector<ValidationPart>& parts) {
  ValidationPart part{"Step time, row by row",
                      "",
                      {{"row", Align::left},
                       {"model", Align::left},
                       {"GPUs", Align::left},
                       {"framework", Align::left},
                       {"precision", Align::left},
                       {"routing", Align::left},
                       {"use", Align::left},
                       {"measured"},
                       {"predicted"},
                       {"error"}},
                      {}};
  for (const ValidationRow& row : validation.rows) {
    if (row.status != runs::RunStatus::ok || !row.step_time_s.measured) continue;
    std::vector<std::string> cells = {
        row.run.id,        row.run.model,     fmt::format("{} {}", *row.run.gpus, row.run.gpu),
        row.run.framework, row.run.precision, row.run.routing,
        row.run.use};
    add_cells(row.step_time_s, &time_cell, cells);
    part.rows.push_back(std::move(cells));
  }
  if (!part.rows.empty()) parts.push_back(std::move(part));
}

void add_memory(const search::Validation& validation, std::vector<ValidationPart>& parts) {
  ValidationPart part{"Memory, row by row",
                      "GiB of the rank that the row speaks of.",
                      {{"row", Align::left},
                       {"model", Align::left},
                       {"GPUs", Align::left},
                       {"of", Align::left},
                       {"metric", Align::left},
                       {"measured"},
                       {"predicted"},
                       {"error"}},
                      {}};
  for (const ValidationRow& row : validation.rows) {
    if (row.status != runs::RunStatus::ok) continue;
    for (const auto& [name, compared] :
         {std::pair("allocated", row.peak_allocated_bytes), std::pair("reserved", row.peak_reserved_bytes),
          std::pair("device", row.peak_device_bytes)}) {
      if (!compared.measured) continue;
      std::vector<std::string> cells = {row.run.id, row.run.model, fmt::format("{} {}", *row.run.gpus, row.run.gpu),
                                        row.scope, name};
      add_cells(compared, &gib_cell, cells);
      part.rows.push_back(std::move(cells));
    }
  }
  if (!part.rows.empty()) parts.push_back(std::move(part));
}

void add_intervals(const search::Validation& validation, std::vector<ValidationPart>& parts) {
  ValidationPart part{
      "Intervals",
      "Half of the groups, by a hash of their names, tell by how much runs are off: 5 % and 95 % ends "
      "of log(measured / predicted), of step time in units of what the cost models' spreads make of a row. "
      "The others judge the 90 % intervals of this version (models.md, Uncertainty). Of step time, rows of a grade "
      "other than A leave settings open: they tell nothing, and are judged apart.",
      {{"of", Align::left},
       {"rows that tell"},
       {"5 %"},
       {"95 %"},
       {"rows kept out"},
       {"high / low (median)"},
       {"inside"}},
      {}};
  std::vector<std::pair<std::string, const search::Intervals*>> all = {{"step time", &validation.step_intervals}};
  for (const auto& [name, intervals] : validation.step_intervals_by_framework)
    all.emplace_back("step time, " + name, &intervals);
  all.emplace_back("step time, settings not all stated", &validation.step_intervals_not_all_stated);
  all.emplace_back("peak allocated", &validation.allocated_intervals);
  for (const auto& [name, intervals] : all) {
    if (intervals->fitted + intervals->kept_out == 0) continue;
    part.rows.push_back({name, std::to_string(intervals->fitted), fmt::format("{:+.3f}", intervals->form.low),
                         fmt::format("{:+.3f}", intervals->form.high), std::to_string(intervals->kept_out),
                         fmt::format("{:.2f}", intervals->width),
                         intervals->kept_out == 0 ? "-"
                                                  : fmt::format("{} ({})", intervals->inside,
                                                                percent(static_cast<double>(intervals->inside) /
                                                                        static_cast<double>(intervals->kept_out)))});
  }
  if (!part.rows.empty()) parts.push_back(std::move(part));
}

void add_pairs(const search::Validation& validation, std::vector<ValidationPart>& parts) {
  ValidationPart part{"One option changed",
                      "",
                      {{"option", Align::left},
                       {"rows", Align::left},
                       {"from", Align::left},
                       {"to", Align::left},
                       {"measured"},
                       {"predicted"},
                       {"sign", Align::left}},
                      {}};
  std::int64_t tell = 0, right = 0;
  for (const search::OptionPair& pair : validation.pairs) {
    tell += pair.tells ? 1 : 0;
    right += pair.tells && pair.right ? 1 : 0;
    part.rows.push_back({pair.option, pair.from_id + ", " + pair.to_id, pair.from, pair.to,
                         signed_percent(pair.measured), signed_percent(pair.predicted),
                         !pair.tells  ? "too small to tell"
                         : pair.right ? "right"
                                      : "wrong"});
  }
  part.note = fmt::format(
      "Runs of one group that differ in one option: step time of the second over that of the first, less 1. Of {} "
      "pairs "
      "whose measured change is at least {:.0f} %, the predicted change has the same sign in {}.",
      tell, 100 * search::kLeastChange, right);
  if (!part.rows.empty()) parts.push_back(std::move(part));
}

// Rows that say the same stand in one line, in the order of their first.
void add_reasons(const search::Validation& validation, runs::RunStatus status, const char* title,
                 std::vector<ValidationPart>& parts) {
  ValidationPart part{title, "", {{"rows"}, {"reason", Align::left}, {"which", Align::left}}, {}};
  std::vector<std::pair<std::string, std::vector<std::string>>> reasons;
  for (const ValidationRow& row : validation.rows) {
    if (row.status != status) continue;
    const auto same =
        std::find_if(reasons.begin(), reasons.end(), [&](const auto& entry) { return entry.first == row.reason; });
    if (same == reasons.end()) {
      reasons.push_back({row.reason, {row.run.id}});
    } else {
      same->second.push_back(row.run.id);
    }
  }
  for (const auto& [reason, ids] : reasons) {
    part.rows.push_back({std::to_string(ids.size()), without_absolute_paths(reason), joined(ids, " ")});
  }
  if (!part.rows.empty()) parts.push_back(std::move(part));
}

void add_notes(const search::Validation& validation, std::vector<ValidationPart>& parts) {
  ValidationPart part{
      "Rows whose comparison is in doubt",
      "What is predicted is another run than the measured one, or what was measured is not what the row says.",
      {{"rows"}, {"note", Align::left}, {"which", Align::left}},
      {}};
  for (const ValidationRow& row : validation.rows)
    for (const std::string& note : row.notes) part.rows.push_back({"1", note, row.run.id});
  if (!part.rows.empty()) parts.push_back(std::move(part));
}

}  // namespace

std::string signed_percent(const std::optional<double>& fraction) {
  if (!fraction) return "-";
  return fmt::format("{:+.{}f} %", 100.0 * *fraction, std::abs(*fraction) < 0.1 ? 2 : 1);
}

std::string validation_sentence(const search::Validation& validation) {
  return fmt::format("{} of {} rows simulated, {} skipped, {} with errors; {} stand in the summaries, one a group",
                     validation.ok, validation.rows.size(), validation.skipped, validation.errors, validation.judged);
}

std::vector<ValidationPart> validation_parts(const search::Validation& validation) {
  std::vector<ValidationPart> parts;
  add_summary(validation, "Step time", &SummaryLine::step_time, parts);
  add_summary(validation, "Peak allocated", &SummaryLine::allocated, parts);
  add_summary(validation, "Peak reserved", &SummaryLine::reserved, parts);
  add_summary(validation, "Device memory", &SummaryLine::device, parts);
  add_intervals(validation, parts);
  add_pairs(validation, parts);
  add_ranks(validation, parts);
  add_times(validation, parts);
  add_memory(validation, parts);
  add_notes(validation, parts);
  add_reasons(validation, runs::RunStatus::error, "Rows with errors", parts);
  add_reasons(validation, runs::RunStatus::skipped, "Rows that cannot be simulated", parts);
  return parts;
}

}  // namespace moeplan::report
