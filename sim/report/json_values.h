#pragma once
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>

// What JSON says where there is nothing to say. For JSON sources only.
namespace moeplan::report {

nlohmann::ordered_json value_or_null(const std::optional<double>& value);
nlohmann::ordered_json text_or_null(const std::string& text);

}  // namespace moeplan::report
