#pragma once
#include <nlohmann/json_fwd.hpp>

#include "search/evaluate.h"

namespace moeplan::report {

// Where and how high the peak of the worst rank is: what run and explain both show. For JSON sources only.
nlohmann::ordered_json peak_place_json(const search::Evaluation& evaluation);

}  // namespace moeplan::report
