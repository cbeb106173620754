#include <nlohmann/json.hpp>

#include "report/report.h"
#include "report/trace_summary.h"
#include "report/version.h"

namespace moeplan::report {
namespace {

using Json = nlohmann::ordered_json;

Json optional_json(const std::optional<std::int64_t>& value) { return value ? Json(*value) : Json(); }

}  // namespace

std::string trace_json(const routing::Trace& trace, const std::vector<std::int64_t>& ranks) {
  const TraceSummary summary = summarise(trace, ranks);
  Json json;
  json["schema"] = "moeplan.trace-info/1";
  json["trace"] = summary.name;
  json["kind"] = summary.kind;
  json["experts"] = summary.experts;
  json["experts_stated"] = summary.experts_stated;
  json["top_k"] = optional_json(summary.top_k);
  json["tokens"] = optional_json(summary.tokens);
  json["tokens_without_route"] = summary.tokens_without_route;
  json["lines"] = optional_json(summary.lines);
  json["steps"] = optional_json(summary.steps);
  json["router_weights"] = summary.weights;
  json["layers"] = Json::array();
  for (const LayerStatistics& layer : summary.layers) {
    Json ep = Json::object();
    for (std::size_t r = 0; r < summary.ranks.size(); ++r) {
      ep[std::to_string(summary.ranks[r])] = layer.rank_max_over_mean[r];
    }
    json["layers"].push_back({{"layer", layer.layer},
                              {"copies", layer.copies},
                              {"max_over_mean", layer.max_over_mean},
                              {"busiest_expert", layer.busiest_expert},
                              {"cv", layer.cv},
                              {"gini", layer.gini},
                              {"ep", std::move(ep)}});
  }
  json["ep_left_out"] = summary.left_out;
  json["checks"] = Json::object();
  for (const auto& [check, result] : summary.checks) json["checks"][check] = result;
  std::vector<std::string> assumptions;
  if (!summary.top_k) assumptions.emplace_back("top_k, tokens and lines are null: counts do not state them");
  if (!summary.steps) assumptions.emplace_back("steps is null: a trace of tokens has none");
  if (!summary.experts_stated) assumptions.emplace_back("experts: the largest id + 1, as the format does not state it");
  json["assumptions"] = assumptions;
  json["provenance"] = {{"version", kVersion}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace moeplan::report
