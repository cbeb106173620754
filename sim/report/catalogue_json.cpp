#include <nlohmann/json.hpp>

#include "model/parameters.h"
#include "report/catalogue.h"
#include "report/version.h"

namespace moeplan::report {
namespace {

using Json = nlohmann::ordered_json;

std::string dump(const std::string& topic, Json entries) {
  Json json;
  json["schema"] = "moeplan.list/1";
  json["topic"] = topic;
  json["entries"] = std::move(entries);
  json["provenance"] = {{"version", kVersion}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

Json published_json(double figure) { return figure > 0 ? Json(figure) : Json(); }

Json model_json(const model::Architecture& model) {
  const model::ModelParameters parameters = model::model_parameters(model);
  return {{"name", model.id},
          {"title", model.title},
          {"source", model.source},
          {"layers", model.layer_count()},
          {"moe_layers", model.moe_layer_count()},
          {"hidden_size", model.hidden},
          {"vocab_size", model.vocab},
          {"experts", model.moe.experts},
          {"top_k", model.moe.top_k},
          {"expert_ffn", model.moe.ffn},
          {"shared_ffn", model.moe.shared_ffn},
          {"mtp_layers", model.mtp_layers},
          {"parameters",
           {{"embedding", parameters.embedding},
            {"head", parameters.head},
            {"final_norm", parameters.final_norm},
            {"attention", parameters.attention},
            {"norms", parameters.norms},
            {"mlp", parameters.mlp},
            {"router", parameters.router},
            {"experts", parameters.experts},
            {"shared", parameters.shared},
            {"positions", parameters.positions},
            {"mtp", parameters.mtp},
            {"total", parameters.total()}}},
          {"active_parameters", model::active_parameters(model, model.published.active_convention)},
          {"published_total_parameters", published_json(model.published.total_parameters)},
          {"published_active_parameters", published_json(model.published.active_parameters)},
          {"flops_per_token_at_4096", model::training_flops_per_token(model, 4096)}};
}

Json profile_json(const topology::HardwareProfile& profile) {
  Json values = Json::object();
  for (const auto& [key, value] : profile.all()) {
    values[key] = {
        {"value", value.value}, {"evidence", topology::evidence_name(value.evidence)}, {"source", value.source}};
  }
  Json collectives = Json::array();
  for (const topology::CollectiveEntry& entry : profile.collectives) {
    Json one = {{"collective", topology::collective_names()[static_cast<std::size_t>(entry.kind)]},
                {"ranks", entry.ranks},
                {"nodes", entry.nodes},
                {"fabric", entry.fabric},
                {"evidence", topology::evidence_name(entry.evidence)},
                {"source", entry.source}};
    if (entry.sizes_bytes.empty()) {
      one.update({{"latency_s", entry.latency_s}, {"bandwidth", entry.bandwidth}, {"exponent", entry.exponent}});
    } else {
      one.update({{"sizes_bytes", entry.sizes_bytes}, {"times_s", entry.times_s}});
    }
    collectives.push_back(std::move(one));
  }
  return {{"name", profile.id},       {"title", profile.title},      {"aliases", profile.aliases},
          {"fabric", profile.fabric}, {"values", std::move(values)}, {"collectives", std::move(collectives)}};
}

}  // namespace

std::string models_json(const std::vector<model::Architecture>& models) {
  Json entries = Json::array();
  for (const model::Architecture& model : models) entries.push_back(model_json(model));
  return dump("models", std::move(entries));
}

std::string hardware_json(const std::vector<topology::HardwareProfile>& profiles) {
  Json entries = Json::array();
  for (const topology::HardwareProfile& profile : profiles) entries.push_back(profile_json(profile));
  return dump("hardware", std::move(entries));
}

std::string names_json(const std::string& topic, const Names& names) {
  Json entries = Json::array();
  for (const auto& [name, description] : names) {
    entries.push_back({{"name", name}, {topic == "keys" ? "short_names" : "description", description}});
  }
  return dump(topic, std::move(entries));
}

}  // namespace moeplan::report
