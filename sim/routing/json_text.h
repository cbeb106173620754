#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <string_view>

// JSON with places, for the readers of traces. For .cpp files: callers include nlohmann/json.hpp.
namespace moeplan::routing {

// Throws base::Error with line and column for a syntax error, a key that stands twice in one object, nesting deeper
// than 32. Lines are counted from `first_line`.
nlohmann::json parse_json(std::string_view text, const std::string& file, int first_line = 1);

// A number without a fraction and at most 10^15 away from 0 ("4096", "4096.0"); nothing for everything else.
std::optional<std::int64_t> whole_number(const nlohmann::json& value);

// What a message shows of a value: its text, at most 40 bytes of it.
std::string shown(const nlohmann::json& value);

}  // namespace moeplan::routing
