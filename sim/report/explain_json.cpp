#include <algorithm>
#include <nlohmann/json.hpp>

#include "report/format.h"
#include "report/notes.h"
#include "report/peak_json.h"
#include "report/report.h"
#include "report/version.h"

// Keys and units: docs/json.md.
namespace moeplan::report {
namespace {

using Json = nlohmann::ordered_json;
using search::Evaluation;
using search::Lever;

// By kind, largest first, each with its tensors; what is no tensor last. They add up to the device bytes.
Json holders_json(const Evaluation& e) {
  std::vector<std::size_t> kinds;
  for (std::size_t kind = 0; kind < plan::kTensorKinds; ++kind)
    if (e.worst.peak.by_kind[kind] > 0) kinds.push_back(kind);
  std::stable_sort(kinds.begin(), kinds.end(),
                   [&](std::size_t a, std::size_t b) { return e.worst.peak.by_kind[a] > e.worst.peak.by_kind[b]; });
  Json holders = Json::array();
  for (const std::size_t kind : kinds) {
    Json tensors = Json::array();
    for (const memory::AliveTensor& tensor : e.alive)
      if (static_cast<std::size_t>(tensor.kind) == kind)
        tensors.push_back({{"name", tensor.name}, {"count", tensor.count}, {"bytes", tensor.bytes}});
    holders.push_back({{"kind", plan::tensor_kind_name(static_cast<plan::TensorKind>(kind))},
                       {"bytes", e.worst.peak.by_kind[kind]},
                       {"tensors", std::move(tensors)}});
  }
  holders.push_back({{"kind", "fragmentation"}, {"bytes", e.worst.fragmentation_bytes()}, {"tensors", Json::array()}});
  holders.push_back({{"kind", "context"}, {"bytes", e.worst.outside_bytes}, {"tensors", Json::array()}});
  return holders;
}

Json lever_json(const Lever& lever) {
  return {{"change", lever.name},
          {"set", lever.set},
          {"changes", lever.changes},
          {"verdict", search::verdict_name(lever.verdict)},
          {"fits", lever.verdict != search::Verdict::oom},
          {"rank", lever.rank},
          {"peak_allocated_bytes", lever.allocated_bytes},
          {"peak_reserved_bytes", lever.reserved_bytes},
          {"device_bytes", lever.device_bytes},
          {"host_bytes", lever.host_bytes},
          {"saving_bytes", lever.saving_bytes},
          {"headroom_fraction", lever.headroom_fraction},
          {"step_time_s", lever.step_s},
          {"step_change_fraction", lever.step_change},
          {"warnings", lever.warnings}};
}

Json printed(const std::optional<search::PrintedBytes>& size) { return size ? Json(size->bytes) : Json(); }
Json count(const std::optional<std::int64_t>& value) { return value ? Json(*value) : Json(); }
Json place(std::int64_t value) { return value < 0 ? Json() : Json(value); }

Json oom_json(const search::OomDecoding& decoding) {
  const search::OomLine& line = decoding.line;
  const bool named = !decoding.candidates.empty();
  Json json = {{"bytes", line.tried.bytes},
               {"half_unit_bytes", line.tried.half_unit},
               {"tensor", named ? Json(decoding.candidates.front().name) : Json()},
               {"lever", named ? Json(decoding.candidates.front().lever) : Json()},
               {"device", line.device.empty() ? Json() : Json(line.device)},
               {"rank", count(line.rank)},
               {"gpu", count(line.gpu)},
               {"capacity_bytes", printed(line.capacity)},
               {"free_bytes", printed(line.free)},
               {"in_use_bytes", printed(line.in_use)},
               {"other_processes_bytes", printed(line.other_processes)},
               {"allocated_bytes", printed(line.allocated)},
               {"reserved_bytes", printed(line.reserved)},
               {"unallocated_bytes", printed(line.unallocated)},
               {"private_pools_bytes", printed(line.private_pools)},
               {"candidates", Json::array()},
               {"notes", decoding.notes}};
  for (const search::OomCandidate& c : decoding.candidates)
    json["candidates"].push_back({{"tensor", c.name},
                                  {"also", c.also},
                                  {"match", search::match_name(c.match)},
                                  {"bytes", c.bytes},
                                  {"error_fraction", c.error_fraction},
                                  {"derivation", c.derivation.empty() ? Json() : Json(c.derivation)},
                                  {"lever", c.lever},
                                  {"rows", count(c.implied)},
                                  {"least_rows", count(c.least)},
                                  {"most_rows", count(c.most)},
                                  {"rank", place(c.rank)},
                                  {"layer", place(c.layer)},
                                  {"microbatch", place(c.microbatch)}});
  return json;
}

}  // namespace

std::string explain_json(const search::Explanation& explanation) {
  const Evaluation& base = explanation.base;
  Json json;
  json["schema"] = "moeplan.explain/1";
  json["verdict"] = search::verdict_name(base.fit.verdict);
  json["device_bytes"] = base.fit.device_bytes;
  json["headroom_fraction"] = base.fit.headroom_fraction;
  json["step_time_s"] = base.step_s;
  json["peak"] = peak_place_json(base);
  json["holders"] = holders_json(base);
  const Lever* advice = explanation.advice();
  json["advice"] = advice != nullptr ? lever_json(*advice) : Json();
  json["levers"] = Json::array();
  for (const Lever& lever : explanation.singles) json["levers"].push_back(lever_json(lever));
  json["pairs"] = Json::array();
  for (const Lever& lever : explanation.pairs) json["pairs"].push_back(lever_json(lever));
  json["refused"] = Json::array();
  for (const Lever& lever : explanation.refused)
    json["refused"].push_back(
        {{"change", lever.name}, {"set", lever.set}, {"reason", without_absolute_paths(lever.refused)}});
  json["oom_line"] = explanation.oom ? oom_json(*explanation.oom) : Json();
  json["routing"] = {{"source", without_absolute_paths(base.routing.source)}};
  json["warnings"] = warnings_of(base);
  json["assumptions"] = assumptions_of(base);
  json["provenance"] = {{"scenario", without_absolute_paths(base.scenario->name)},
                        {"profile", base.scenario->hardware.id},
                        {"version", kVersion},
                        {"seed", base.scenario->seed}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace moeplan::report
