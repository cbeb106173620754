#include "scenario/places.h"

#include <functional>
#include <utility>

#include "scenario/keys.h"

namespace moeplan::scenario {

void Places::set(std::string_view path, base::Where where) { places_[std::string(path)] = std::move(where); }

bool Places::stated(std::string_view path) const { return places_.contains(path); }

base::Where Places::where(std::string_view path) const {
  for (; !path.empty(); path = parent_path(path)) {
    const auto found = places_.find(path);
    if (found != places_.end()) return found->second;
  }
  return root_;
}

void declare_keys(config::Reader& reader, std::string_view path, Places& places) {
  for (const Key& key : key_table()) {
    if (parent_path(key.path) != path) continue;
    const std::string_view name = last_name(key.path);
    for (const std::string_view short_name : key.short_names) {
      if (!short_name.empty()) reader.alias(name, short_name);
    }
    if (reader.has(name)) places.set(key.path, reader.where(name));
  }
}

}  // namespace moeplan::scenario
