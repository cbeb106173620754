#include <nlohmann/json.hpp>

#include "report/breakdown.h"
#include "report/format.h"
#include "report/notes.h"
#include "report/report.h"
#include "report/version.h"

namespace moeplan::report {
namespace {

using Json = nlohmann::ordered_json;

Json point_json(const search::ChunkPoint& point) {
  const search::Evaluation& e = point.evaluation;
  return {{"rule", point.rule},
          {"chunks", point.rule == "none" ? Json() : Json(point.chunks)},
          {"verdict", search::verdict_name(e.fit.verdict)},
          {"fits", e.fit.verdict != search::Verdict::oom},
          {"peak_allocated_bytes", e.worst.peak.allocated_bytes},
          {"peak_reserved_bytes", e.worst.reserved_bytes},
          {"device_bytes", e.fit.device_bytes},
          {"headroom_fraction", e.fit.headroom_fraction},
          {"routed_activation_bytes", routed_peak_bytes(e)},
          {"replay_activation_bytes", e.replay_activation_bytes},
          {"closed_form_activation_bytes", whole_bytes(e.closed_form_activation_bytes)},
          {"closed_form_gap_fraction", closed_form_gap(e)},
          {"step_time_s", e.step_s},
          {"tokens_per_s_per_gpu", e.tokens_per_s_per_gpu},
          {"recompute_s", e.mean.recompute_s},
          {"exposed_ep_s", e.mean.exposed_ep_s}};
}

Json adaptive_stages_json(const search::Evaluation& adaptive) {
  Json json = Json::array();
  for (const search::StageSummary& stage : adaptive.stages) {
    Json layers = stage.layer_count == 0 ? Json::array() : Json{stage.first_layer, stage.last_layer};
    json.push_back({{"pipeline_stage", stage.stage}, {"layers", std::move(layers)}, {"s_max_rows", stage.s_max_rows}});
  }
  return json;
}

Json chosen_json(const search::ChunkSweep& sweep, const search::Evaluation* adaptive) {
  Json json = Json::array();
  for (std::size_t i = 0; i < sweep.chosen.size(); ++i) {
    const search::ChunkSweep::Chosen& chosen = sweep.chosen[i];
    Json times = Json::object();
    for (const auto& [chunks, count] : chosen.times) times[std::to_string(chunks)] = count;
    Json entry = {{"layer", chosen.layer}, {"times", std::move(times)}};
    if (adaptive != nullptr && i < adaptive->routing.layers.size()) {
      entry["chunks_by_microbatch"] = adaptive->routing.layers[i].chunks_by_microbatch;
    }
    json.push_back(std::move(entry));
  }
  return json;
}

}  // namespace

std::string chunks_json(const search::ChunkSweep& sweep) {
  const search::Evaluation* adaptive = nullptr;
  Json json;
  json["schema"] = "moeplan.chunks/1";
  json["curve"] = Json::array();
  for (const search::ChunkPoint& point : sweep.curve) {
    json["curve"].push_back(point_json(point));
    if (point.rule == "adaptive") adaptive = &point.evaluation;
  }
  json["stages"] = adaptive != nullptr ? adaptive_stages_json(*adaptive) : Json::array();
  json["chosen"] = chosen_json(sweep, adaptive);
  const auto& recommendation = sweep.recommendation;
  json["recommendation"] = {{"rule", recommendation.rule},
                            {"chunks", recommendation.rule == "none" ? Json() : Json(recommendation.chunks)},
                            {"bins", recommendation.bins},
                            {"fits", recommendation.fits},
                            {"reason", recommendation.reason}};
  if (!sweep.curve.empty()) {
    const search::Evaluation& first = sweep.curve.front().evaluation;
    json["routing"] = {{"source", without_absolute_paths(first.routing.source)}};
    json["warnings"] = warnings_of(first);
    json["assumptions"] = assumptions_of(first);
    json["provenance"] = {{"scenario", without_absolute_paths(first.scenario->name)},
                          {"profile", first.scenario->hardware.id},
                          {"version", kVersion},
                          {"seed", first.scenario->seed}};
  }
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace moeplan::report
