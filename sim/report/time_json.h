#pragma once
#include <nlohmann/json_fwd.hpp>

#include "search/evaluate.h"

// Parts of the JSON of `run` that say what a step's time rests on: docs/json.md.
namespace moeplan::report {

nlohmann::ordered_json exchanges_json(const std::vector<engine::ExchangeKind>& exchanges);
nlohmann::ordered_json nic_overlap_json(const std::optional<engine::NicOverlap>& overlap);  // null without
nlohmann::ordered_json sensitivities_json(const std::vector<search::Sensitivity>& sensitivities);
// Null ranges where they were not worked out.
nlohmann::ordered_json uncertainty_json(const search::Evaluation& evaluation);

}  // namespace moeplan::report
