#include <nlohmann/json.hpp>

#include "report/format.h"
#include "report/report.h"
#include "report/version.h"

namespace moeplan::report {
namespace {

using Json = nlohmann::ordered_json;
using search::LayerMetric;

constexpr std::pair<const char*, LayerMetric> kKeys[] = {{"forward_s", LayerMetric::forward_time},
                                                         {"backward_s", LayerMetric::backward_time},
                                                         {"step_s", LayerMetric::step_time},
                                                         {"forward_peak_bytes", LayerMetric::forward_peak},
                                                         {"backward_peak_bytes", LayerMetric::backward_peak},
                                                         {"peak_reserved_bytes", LayerMetric::reserved}};

Json row_json(const search::LayerRow& row) {
  const measurements::LayerRun& run = *row.run;
  Json json = {{"line", run.where.line},
               {"status", measurements::status_name(row.status)},
               {"reason", row.reason.empty() ? Json() : Json(without_absolute_paths(row.reason))},
               {"gpu", run.gpu},
               {"profile", row.profile.empty() ? Json() : Json(row.profile)},
               {"library", run.library},
               {"tokens", run.tokens},
               {"hidden", run.hidden},
               {"ffn", run.ffn},
               {"experts", run.experts},
               {"top_k", run.top_k},
               {"distribution", run.distribution},
               {"chunks", run.chunks},
               {"backward", run.backward},
               {"retention", run.retention}};
  if (!row.predicted) return json;
  for (const auto& [key, metric] : kKeys) {
    const double measured = search::measured_of(run, metric), predicted = search::predicted_of(*row.predicted, metric);
    json[key] = {{"measured", measured}, {"predicted", predicted}, {"error", predicted / measured - 1}};
  }
  return json;
}

Json summary_json(const search::LayerSummary& s) {
  Json json = {{"by", s.by}, {"value", s.value}, {"count", s.count}};
  if (s.count == 0) return json;
  for (const auto& [key, metric] : kKeys) {
    const auto& e = s.errors[static_cast<std::size_t>(metric)];
    json[key] = {{"median_absolute_error", e.median_absolute},
                 {"worst_absolute_error", e.worst_absolute},
                 {"mean_error", e.mean}};
  }
  return json;
}

Json side_json(const search::ChunkCurve::Side& side) {
  return {{"peak_bytes", side.bytes},
          {"step_s", side.step_s},
          {"fixed_bytes", side.fixed_bytes},
          {"divided_bytes", side.divided_bytes},
          {"worst_residual", side.worst_residual}};
}

}  // namespace

std::string layers_json(const search::LayerValidation& validation) {
  Json json;
  json["schema"] = "moeplan.layers/1";
  json["file"] = without_absolute_paths(validation.file);
  json["rows"] = Json::array();
  for (const search::LayerRow& row : validation.rows) json["rows"].push_back(row_json(row));
  json["faults"] = Json::array();
  for (const base::Fault& fault : validation.faults)
    json["faults"].push_back({{"line", fault.where.line}, {"message", fault.message}});
  json["left_out"] = validation.left_out;
  json["summary"] = {{"rows", validation.rows.size()},
                     {"ok", validation.ok},
                     {"skipped", validation.skipped},
                     {"errors", validation.errors}};
  json["summary"]["by"] = Json::array();
  for (const search::LayerSummary& s : validation.summary) json["summary"]["by"].push_back(summary_json(s));
  json["curves"] = Json::array();
  for (const search::ChunkCurve& c : validation.curves)
    json["curves"].push_back({{"tokens", c.tokens},
                              {"hidden", c.hidden},
                              {"ffn", c.ffn},
                              {"experts", c.experts},
                              {"top_k", c.top_k},
                              {"distribution", c.distribution},
                              {"library", c.library},
                              {"chunks", c.chunks},
                              {"measured", side_json(c.measured)},
                              {"predicted", side_json(c.predicted)}});
  json["provenance"] = {{"version", kVersion}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace moeplan::report
