#include <algorithm>
#include <cctype>
#include <type_traits>
#include <utility>

#include "base/check.h"
#include "topology/hardware_keys.h"

namespace moeplan::topology {
namespace {

bool holds(std::string_view text, std::string_view part) {
  return std::search(text.begin(), text.end(), part.begin(), part.end(),
                     [](unsigned char a, unsigned char b) { return std::tolower(a) == std::tolower(b); }) != text.end();
}

bool is_path(std::string_view path, std::string_view section, std::string_view key) {
  return path.size() == section.size() + 1 + key.size() && path.starts_with(section) && path[section.size()] == '.' &&
         path.ends_with(key);
}

}  // namespace

const HardwareProfile::Library* find_library(const HardwareProfile& profile, std::string_view name) {
  for (const HardwareProfile::Library& library : profile.libraries) {
    for (const std::string& part : library.matches) {
      if (holds(name, part)) return &library;
    }
  }
  return nullptr;
}

HardwareProfile with_library(HardwareProfile profile, const HardwareProfile::Library& library) {
  const auto values = library.values;  // may be one of the profile's own
  for (const auto& [path, value] : values) set_value(profile, path, value);
  return profile;
}

const Value* value_at(const HardwareProfile& profile, std::string_view path) {
  const Value* found = nullptr;
  visit_values(profile, [&](const char* section, const char* key, const Value& value, Quantity) {
    if (is_path(path, section, key)) found = &value;
  });
  return found;
}

void set_value(HardwareProfile& profile, std::string_view path, Value value) {
  bool found = false;
  visit_keys(profile, [&](const char* section, const char* key, auto& entry, Quantity) {
    if (!is_path(path, section, key)) return;
    entry = value;
    found = true;
  });
  MOEPLAN_CHECK(found, "a key of hardware profiles");
}

}  // namespace moeplan::topology
