#include "report/time_json.h"

#include <nlohmann/json.hpp>

#include "report/breakdown.h"

namespace moeplan::report {

using Json = nlohmann::ordered_json;

Json exchanges_json(const std::vector<engine::ExchangeKind>& exchanges) {
  Json json = Json::array();
  for (const engine::ExchangeKind& kind : exchanges) {
    Json bounds = Json::array();
    for (const engine::ExchangeKind::Bound& bound : kind.bounds) {
      bounds.push_back({{"resource", bound.resource},
                        {"count", bound.count},
                        {"share", static_cast<double>(bound.count) / static_cast<double>(kind.count)},
                        {"mean_slack_s", bound.slack_s}});
    }
    json.push_back({{"kind", kind.name},
                    {"count", kind.count},
                    {"mean_s", kind.mean_s},
                    {"l0_s", kind.mean_s},
                    {"l1_s", kind.l1_mean_s},
                    {"l1_of", {{"distinct", kind.distinct}, {"worked_out", kind.l1_distinct}}},
                    {"bound_by", std::move(bounds)},
                    {"worst",
                     {{"seconds", kind.worst_s},
                      {"l0_s", kind.worst_s},
                      {"l1_s", kind.l1_worst_s},
                      {"binding", kind.worst_binding},
                      {"slack_s", kind.worst_slack_s},
                      {"layer", kind.worst_layer},
                      {"microbatch", kind.worst_microbatch}}}});
  }
  return json;
}

Json nic_overlap_json(const std::optional<engine::NicOverlap>& overlap) {
  if (!overlap) return nullptr;
  return {{"mean", overlap->mean_s},
          {"worst", overlap->worst_s},
          {"worst_rank", overlap->worst_rank},
          {"busy", overlap->busy_s}};
}

Json sensitivities_json(const std::vector<search::Sensitivity>& sensitivities) {
  Json json = Json::array();
  for (const search::Sensitivity& one : sensitivities) {
    json.push_back({{"key", one.key},
                    {"value", one.value},
                    {"step_change_per_percent", one.step_change_per_percent},
                    {"peak_unaffected", one.peak_unaffected}});
  }
  return json;
}

Json uncertainty_json(const search::Evaluation& evaluation) {
  if (!evaluation.uncertainty) return {{"step_time_s", nullptr}, {"peak_allocated_bytes", nullptr}};
  const search::Uncertainty& uncertainty = *evaluation.uncertainty;
  const search::Range& step = uncertainty.step_s;
  const search::Range& peak = uncertainty.peak_allocated_bytes;
  Json families = Json::array();
  for (const search::FamilyError& family : uncertainty.families) {
    families.push_back({{"family", family.family},
                        {"spread", family.spread},
                        {"evidence", topology::evidence_name(family.evidence)},
                        {"source", family.source},
                        {"step_change", family.step_change}});
  }
  return {{"coverage", search::kCoverage},
          {"step_time_s", {step.low, step.high}},
          {"peak_allocated_bytes", {whole_bytes(peak.low), whole_bytes(peak.high)}},
          {"step_deviation", uncertainty.deviation},
          {"method", uncertainty.rerun ? "re-evaluation" : "parts"},
          {"families", std::move(families)}};
}

}  // namespace moeplan::report
