#pragma once
#include <array>
#include <string>

namespace moeplan::topology {

enum class Evidence { measured, published, datasheet, assumed };  // from strongest to weakest
const std::array<std::string, 4>& evidence_names();
std::string evidence_name(Evidence evidence);

}  // namespace moeplan::topology
