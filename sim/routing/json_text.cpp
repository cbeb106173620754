#include "routing/json_text.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "base/error.h"
#include "routing/count_rows.h"

namespace moeplan::routing {
namespace {

using Json = nlohmann::json;

constexpr int kDeepest = 32;

// `byte` counts from 1.
base::Where place_of(std::string_view text, std::size_t byte, const std::string& file, int first_line) {
  const std::string_view before = text.substr(0, std::min(std::max<std::size_t>(byte, 1) - 1, text.size()));
  const auto lines = std::count(before.begin(), before.end(), '\n');
  const std::size_t line_start = before.rfind('\n') + 1;  // npos + 1 is 0
  return {file, first_line + static_cast<int>(lines), static_cast<int>(before.size() - line_start) + 1, {}};
}

// Of "[json.exception...] parse error at line 1, column 2: syntax error while ... - WHY; last read: 'TEXT'" the WHY.
// The place is told apart, and the text is the file's own: it may be long, or begin inside a character.
std::string reason_of(std::string message) {
  const std::size_t start = message.find(" - ");
  if (start != std::string::npos) message = message.substr(start + 3);
  return "not valid JSON: " + message.substr(0, message.find("; last read:"));
}

}  // namespace

Json parse_json(std::string_view text, const std::string& file, int first_line) {
  std::vector<std::set<std::string>> keys;  // of the objects that are open
  const auto watch = [&](int depth, Json::parse_event_t event, Json& parsed) {
    const bool opens = event == Json::parse_event_t::object_start || event == Json::parse_event_t::array_start;
    if (opens && depth >= kDeepest) throw base::Error({file, first_line, 0, {}}, "nested deeper than 32");
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key && !keys.back().insert(parsed.get<std::string>()).second) {
      throw base::Error({file, first_line, 0, {}}, "key " + shown(parsed) + " stands twice in one object");
    }
    return true;
  };
  try {
    return Json::parse(text.begin(), text.end(), watch);
  } catch (const Json::parse_error& error) {
    throw base::Error(place_of(text, error.byte, file, first_line), reason_of(error.what()));
  } catch (const Json::exception&) {  // a number that no double holds
    throw base::Error({file, first_line, 0, {}}, "not valid JSON: a number is too large");
  }
}

std::optional<std::int64_t> whole_number(const Json& value) {
  if (value.is_number_unsigned()) {
    const auto number = value.get<std::uint64_t>();
    if (number <= static_cast<std::uint64_t>(kLargestSum)) return static_cast<std::int64_t>(number);
  } else if (value.is_number_integer()) {
    const auto number = value.get<std::int64_t>();
    if (number >= -kLargestSum && number <= kLargestSum) return number;
  } else if (value.is_number_float()) {
    const auto number = value.get<double>();
    if (std::abs(number) <= static_cast<double>(kLargestSum) && std::trunc(number) == number) {
      return static_cast<std::int64_t>(number);
    }
  }
  return std::nullopt;
}

std::string shown(const Json& value) {
  if (value.is_array()) return "a list";
  if (value.is_object()) return "an object";
  constexpr std::size_t kLongest = 40;
  std::string text = value.dump(-1, ' ', true);  // ASCII: may be cut anywhere
  if (text.size() > kLongest) text = text.substr(0, kLongest) + "...";
  return text;
}

}  // namespace moeplan::routing
