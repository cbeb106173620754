#include <nlohmann/json.hpp>

#include "report/format.h"
#include "report/json_values.h"
#include "report/report.h"
#include "report/version.h"

namespace moeplan::report {
namespace {

using Json = nlohmann::ordered_json;
using search::Compared;
using search::ErrorSummary;
using search::ValidationRow;

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

Json pairs_json(const std::vector<search::OptionPair>& pairs) {
  Json list = Json::array();
  std::int64_t tell = 0, right = 0;
  for (const search::OptionPair& pair : pairs) {
    tell += pair.tells ? 1 : 0;
    right += pair.tells && pair.right ? 1 : 0;
    list.push_back({{"option", pair.option},
                    {"from", {{"id", pair.from_id}, {"value", pair.from}}},
                    {"to", {{"id", pair.to_id}, {"value", pair.to}}},
                    {"measured_change", pair.measured},
                    {"predicted_change", pair.predicted},
                    {"tells", pair.tells},
                    {"right", pair.right}});
  }
  return {{"tell", tell}, {"right", right}, {"pairs", std::move(list)}};
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
  json["summary"]["intervals"] = {
      {"coverage", search::kCoverage},
      {"step_time_s", intervals_json(validation.step_intervals)},
      {"step_time_s_not_all_stated", intervals_json(validation.step_intervals_not_all_stated)},
      {"peak_allocated_bytes", intervals_json(validation.allocated_intervals)}};
  Json& by_framework = json["summary"]["intervals"]["step_time_s_by_framework"] = Json::object();
  for (const auto& [name, intervals] : validation.step_intervals_by_framework)
    by_framework[name] = intervals_json(intervals);
  json["summary"]["options"] = pairs_json(validation.pairs);
  json["warnings"] = validation.notes;
  json["provenance"] = {{"version", kVersion}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace moeplan::report
