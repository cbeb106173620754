#include "report/json_values.h"

#include <nlohmann/json.hpp>

namespace moeplan::report {

nlohmann::ordered_json value_or_null(const std::optional<double>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
}
nlohmann::ordered_json text_or_null(const std::string& text) {
  return text.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(text);
}

}  // namespace moeplan::report
