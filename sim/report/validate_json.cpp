#include <nlohmann/json.hpp>

#include "report/format.h"
#include "report/report.h"
#include "report/version.h"

namespace moeplan::report {
namespace {

using Json = nlohmann::ordered_json;
using search::Compared;
using search::ErrorSummary;
using search::ValidationRow;

Json value_or_null(const std::optional<double>& value) { return value ? Json(*value) : Json(); }
Json text_or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }

Json compared_json(const Compared& compared) {
  return {{"measured", value_or_null(compared.measured)},
          {"predicted", value_or_null(compared.predicted)},
          {"error", value_or_null(compared.error())}};
}

Json range_json(const std::optional<search::Range>& range) { return range ? Json({range->low, range->high}) : Json(); }

Json row_json(const ValidationRow& row) {
  const runs::Run& run = row.run;
  Json json = {{"id", run.id},
               {"group", text_or_null(run.group)},
               {"status", runs::status_name(row.status)},
               {"reason", row.reason.empty() ? Json() : Json(without_absolute_paths(row.reason))},
               {"line", run.where.line},
               {"model", run.model},
               {"gpu", run.gpu},
               {"gpus", run.gpus ? Json(*run.gpus) : Json()},
               {"framework", text_or_null(run.framework)},
               {"routing", text_or_null(run.routing)},
               {"use", text_or_null(run.use)},
               {"judges_time", row.judges_time},
               {"judges_memory", row.judges_memory},
               {"step_time_s", compared_json(row.step_time_s)},
               {"step_time_from", text_or_null(row.step_time_from)},
               {"memory_of", row.scope},
               {"peak_allocated_bytes", compared_json(row.peak_allocated_bytes)},
               {"peak_reserved_bytes", compared_json(row.peak_reserved_bytes)},
               {"peak_device_bytes", compared_json(row.peak_device_bytes)}};
  json["step_time_interval_s"] = range_json(row.step_range_s);
  json["step_deviation"] = row.step_deviation;
  json["peak_allocated_interval_bytes"] = range_json(row.allocated_range_bytes);
  json["ranks"] = Json::array();
  for (const search::RankCompared& rank : row.ranks) {
    json["ranks"].push_back({{"rank", rank.rank},
                             {"allocated", compared_json(rank.allocated)},
                             {"reserved", compared_json(rank.reserved)}});
  }
  json["assumptions"] = row.assumptions;
  json["verdict"] = row.verdict ? Json(search::verdict_name(*row.verdict)) : Json();
  json["notes"] = row.notes;
  return json;
}

Json summary_json(const ErrorSummary& s) {
  if (s.n == 0) return Json();
  return {{"n", s.n},
          {"mean_absolute_error", s.mean_absolute},
          {"median_absolute_error", s.median_absolute},
          {"mean_error", s.mean},
          {"over", s.over},
          {"under", s.under},
          {"worst", {{"id", s.worst_id}, {"error", s.worst}}}};
}

Json intervals_json(const search::Intervals& intervals) {
  return {{"fitted", intervals.fitted},     {"low", intervals.form.low},  {"high", intervals.form.high},
          {"kept_out", intervals.kept_out}, {"inside", intervals.inside}, {"median_width", intervals.width}};
}

}  // namespace

std::string validate_json(const search::Validation& validation) {
  Json json;
  json["schema"] = "moeplan.validate/1";
  json["table"] = without_absolute_paths(validation.file);
  json["rows"] = Json::array();
  for (const ValidationRow& row : validation.rows) json["rows"].push_back(row_json(row));
  json["summary"] = {{"rows", validation.rows.size()},
                     {"ok", validation.ok},
                     {"skipped", validation.skipped},
                     {"errors", validation.errors},
                     {"judged", validation.judged}};
  json["summary"]["by"] = Json::array();
  for (const search::SummaryLine& line : validation.summary) {
    json["summary"]["by"].push_back({{"by", line.by},
                                     {"value", text_or_null(line.value)},
                                     {"step_time_s", summary_json(line.step_time)},
                                     {"peak_allocated_bytes", summary_json(line.allocated)},
                                     {"peak_reserved_bytes", summary_json(line.reserved)},
                                     {"peak_device_bytes", summary_json(line.device)}});
  }
  json["summary"]["ranks"] = {{"allocated", summary_json(validation.rank_allocated)},
                              {"reserved", summary_json(validation.rank_reserved)}};
  json["summary"]["intervals"] = {{"coverage", search::kCoverage},
                                  {"step_time_s", intervals_json(validation.step_intervals)},
                                  {"peak_allocated_bytes", intervals_json(validation.allocated_intervals)}};
  json["warnings"] = validation.notes;
  json["provenance"] = {{"version", kVersion}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace moeplan::report
