#include <nlohmann/json.hpp>

#include "report/format.h"
#include "report/json_values.h"
#include "report/report.h"
#include "report/version.h"

namespace moeplan::report {
namespace {

using Json = nlohmann::ordered_json;

Json row_json(const search::OperatorRow& row) {
  const measurements::Measurement& m = *row.measurement;
  const std::optional<double> error = row.error();
  return {{"id", m.id},
          {"status", measurements::status_name(row.status)},
          {"reason", row.reason.empty() ? Json() : Json(without_absolute_paths(row.reason))},
          {"line", m.where.line},
          {"gpu", m.gpu},
          {"profile", text_or_null(row.profile)},
          {"family", measurements::family_name(m.family)},
          {"kind", text_or_null(m.kind)},
          {"dtype", text_or_null(m.dtype)},
          {"library", text_or_null(m.library)},
          {"measured", m.seconds > 0 ? Json(m.seconds) : Json()},
          {"measured_from_rate", m.from_rate},
          {"predicted", row.predicted ? Json(*row.predicted) : Json()},
          {"error", error ? Json(*error) : Json()},
          {"evidence", row.predicted ? Json(row.comes_from()) : Json()},
          {"weakest_value", text_or_null(row.weakest_key)}};
}

Json summary_json(const search::OperatorSummary& s) {
  return {{"count", s.count},
          {"median_absolute_error", s.count > 0 ? Json(s.median_absolute) : Json()},
          {"p90_absolute_error", s.count > 0 ? Json(s.p90_absolute) : Json()},
          {"mean_error", s.count > 0 ? Json(s.mean) : Json()},
          {"over", s.over},
          {"under", s.under}};
}

}  // namespace

std::string operators_json(const search::OperatorValidation& validation) {
  Json json;
  json["schema"] = "moeplan.operators/1";
  json["table"] = without_absolute_paths(validation.file);
  json["rows"] = Json::array();
  for (const search::OperatorRow& row : validation.rows) json["rows"].push_back(row_json(row));
  Json summary = {{"rows", validation.rows.size()},
                  {"ok", validation.ok},
                  {"skipped", validation.skipped},
                  {"errors", validation.errors}};
  summary.update(summary_json(validation.summary.front()));
  summary["by"] = Json::array();
  for (std::size_t i = 1; i < validation.summary.size(); ++i) {
    const search::OperatorSummary& line = validation.summary[i];
    Json entry = {{"by", line.by}, {"value", line.value}};
    entry.update(summary_json(line));
    summary["by"].push_back(std::move(entry));
  }
  json["summary"] = std::move(summary);
  json["warnings"] = validation.notes;
  json["provenance"] = {{"version", kVersion}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace moeplan::report
