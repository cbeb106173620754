#include <algorithm>
#include <charconv>

#include "cli/arguments.h"

namespace moeplan::cli {
namespace {

std::vector<std::string> split(const std::string& text) {
  std::vector<std::string> parts(1);
  for (const char c : text) {
    if (c == ',') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  // Blanks around an item are the shell user's; one inside an item is a fault for the item's reader.
  for (std::string& part : parts) {
    const auto first = part.find_first_not_of(' ');
    part = first == std::string::npos ? "" : part.substr(first, part.find_last_not_of(' ') - first + 1);
  }
  return parts;
}

base::Where place(const std::string& option, const std::string& text) { return {option + " " + text, 0, 0, {}}; }

}  // namespace

std::vector<std::int64_t> parse_integers(const std::string& text, const std::string& option, std::int64_t most) {
  base::Faults faults;
  std::vector<std::int64_t> values;
  for (const std::string& part : split(text)) {
    std::int64_t value = 0;
    const auto [end, status] = std::from_chars(part.data(), part.data() + part.size(), value);
    if (part.empty() || status != std::errc() || end != part.data() + part.size() || value < 1 || value > most) {
      faults.add(place(option, text),
                 "expected integers from 1 to " + std::to_string(most) + " separated by commas, got '" + part + "'");
    } else if (std::find(values.begin(), values.end(), value) != values.end()) {
      faults.add(place(option, text), "'" + part + "' stands twice");
    } else {
      values.push_back(value);
    }
  }
  faults.throw_if_any();
  return values;
}

std::vector<std::string> parse_names(const std::string& text, const std::string& option) {
  base::Faults faults;
  std::vector<std::string> names;
  for (const std::string& part : split(text)) {
    if (part.empty()) {
      faults.add(place(option, text), "expected names separated by commas, got an empty one");
    } else if (std::find(names.begin(), names.end(), part) != names.end()) {
      faults.add(place(option, text), "'" + part + "' stands twice");
    } else {
      names.push_back(part);
    }
  }
  faults.throw_if_any();
  return names;
}

}  // namespace moeplan::cli
