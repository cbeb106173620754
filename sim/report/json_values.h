#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

// What JSON says where there is nothing to say. For JSON sources only.
namespace moeplan::report {

inline nlohmann::ordered_json value_or_null(const std::optional<double>& value) {
  return value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json();
}
inline nlohmann::ordered_json text_or_null(const std::string& text) {
  return text.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(text);
}

}  // namespace moeplan::report
