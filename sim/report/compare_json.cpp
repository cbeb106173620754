#include <nlohmann/json.hpp>

#include "report/breakdown.h"
#include "report/format.h"
#include "report/notes.h"
#include "report/report.h"
#include "report/version.h"

namespace moeplan::report {
namespace {

using Json = nlohmann::ordered_json;

Json policy_json(const search::PolicyResult& result) {
  const search::Evaluation& e = result.evaluation;
  const search::Distribution& step = e.step_distribution;
  return {{"name", result.name},
          {"verdict", search::verdict_name(e.fit.verdict)},
          {"step_time_s", {{"p50", step.p50}, {"p95", step.p95}, {"p99", step.p99}, {"max", step.max}}},
          {"peak_allocated_bytes", e.worst.peak.allocated_bytes},
          {"peak_reserved_bytes", e.worst.reserved_bytes},
          {"device_bytes", e.fit.device_bytes},
          {"headroom_fraction", e.fit.headroom_fraction},
          {"routed_activation_bytes", routed_peak_bytes(e)},
          {"tokens_per_s_per_gpu", e.tokens_per_s_per_gpu},
          {"exposed_ep_s", e.mean.exposed_ep_s},
          {"imbalance_wait_s", e.mean.imbalance_wait_s},
          {"recompute_s", e.mean.recompute_s},
          {"retained_row_share", e.routing.retained_row_share},
          {"retained_score_share", e.routing.retained_score_share},
          {"dropped_share", e.routing.dropped_share},
          {"moved_bytes", e.routing.moved_bytes},
          {"overflow_probability", e.overflow_probability},
          {"warnings", warnings_of(e)}};
}

}  // namespace

std::string compare_json(const std::vector<search::PolicyResult>& results) {
  Json json;
  json["schema"] = "moeplan.compare/1";
  json["baseline"] = results.empty() ? Json() : Json(results.front().name);
  json["policies"] = Json::array();
  for (const search::PolicyResult& result : results) json["policies"].push_back(policy_json(result));
  if (!results.empty()) {
    const search::Evaluation& first = results.front().evaluation;
    json["routing"] = {{"source", without_absolute_paths(first.routing.source)}};
    std::vector<std::string> assumptions = assumptions_of(first);
    for (const search::PolicyResult& result : results) {
      if (!result.evaluation.routing.selects) continue;
      assumptions.push_back(
          "LRMoE is moeplan's own formulation; its backward is approximate where less than all rows are kept");
      break;
    }
    json["assumptions"] = std::move(assumptions);
    json["provenance"] = {{"scenario", without_absolute_paths(first.scenario->name)},
                          {"profile", first.scenario->hardware.id},
                          {"version", kVersion},
                          {"seed", first.scenario->seed}};
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace moeplan::report
