#include <nlohmann/json.hpp>

#include "report/breakdown.h"
#include "report/format.h"
#include "report/notes.h"
#include "report/report.h"
#include "report/sweep_row_json.h"
#include "report/version.h"

namespace moeplan::report {
namespace {

using Json = nlohmann::ordered_json;

std::vector<std::string> shown_values(const search::SweepRow& row) {
  std::vector<std::string> values;
  for (const std::string& value : row.values) values.push_back(without_absolute_paths(value));
  return values;
}

Json refused_row(const search::SweepRow& row) {
  return {{"values", shown_values(row)},
          {"verdict", nullptr},
          {"step_time_s", nullptr},
          {"peak_allocated_bytes", nullptr},
          {"error", without_absolute_paths(row.error)}};
}

}  // namespace

Json sweep_row_json(const search::SweepRow& row) {
  if (!row.evaluation) return refused_row(row);
  const search::Evaluation& e = *row.evaluation;
  return {{"values", shown_values(row)},
          {"verdict", search::verdict_name(e.fit.verdict)},
          {"step_time_s", e.step_s},
          {"peak_allocated_bytes", e.worst.peak.allocated_bytes},
          {"peak_reserved_bytes", e.worst.reserved_bytes},
          {"device_bytes", e.fit.device_bytes},
          {"usable_bytes", e.fit.usable_bytes},
          {"headroom_fraction", e.fit.headroom_fraction},
          {"worst_rank", e.worst.rank},
          {"phase", memory::phase_name(e.worst.peak.phase)},
          {"routed_activation_bytes", routed_peak_bytes(e)},
          {"tokens_per_s_per_gpu", e.tokens_per_s_per_gpu},
          {"model_tflops_per_gpu", e.model_flops_per_gpu / 1e12},
          {"mfu", e.mfu},
          {"exposed_ep_s", e.mean.exposed_ep_s},
          {"imbalance_wait_s", e.mean.imbalance_wait_s},
          {"bubble_s", e.mean.bubble_s},
          {"recompute_s", e.mean.recompute_s},
          {"overflow_probability", e.overflow_probability},
          {"profile", e.scenario->hardware.id},
          {"routing", without_absolute_paths(e.routing.source)},
          {"warnings", warnings_of(e)},
          {"error", nullptr}};
}

std::string sweep_json(const std::vector<search::Axis>& axes, const std::vector<search::SweepRow>& rows,
                       bool complete) {
  Json json;
  json["schema"] = "moeplan.sweep/1";
  json["complete"] = complete;
  json["keys"] = Json::array();
  for (const search::Axis& axis : axes) json["keys"].push_back(axis.key);
  json["rows"] = Json::array();
  for (const search::SweepRow& row : rows) json["rows"].push_back(sweep_row_json(row));
  json["assumptions"] = assumptions_of_version();
  json["provenance"] = {{"version", kVersion}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace moeplan::report
