#pragma once
#include <nlohmann/json_fwd.hpp>

#include "search/sweep.h"

namespace moeplan::report {

// One row of a sweep as documents and JSON lines show it. For .cpp files.
nlohmann::ordered_json sweep_row_json(const search::SweepRow& row);

}  // namespace moeplan::report
