#include "scenario/overrides.h"

#include <algorithm>
#include <optional>
#include <string_view>

#include "scenario/keys.h"
#include "scenario/resolve.h"
#include "topology/hardware.h"

namespace moeplan::scenario {
namespace {

constexpr std::string_view kMemfine = "moe.policies.memfine";

// The mapping or value at a dotted path; nothing when a part of it is missing.
std::optional<config::Node> find_node(const config::Node& root, std::string_view path) {
  config::Node node = root;
  while (!path.empty()) {
    const std::size_t dot = path.find('.');
    const std::string_view name = path.substr(0, dot);
    if (node.kind() != config::Node::Kind::map || !node.has(name)) return std::nullopt;
    node = node.at(name);
    path = dot == std::string_view::npos ? std::string_view() : path.substr(dot + 1);
  }
  return node;
}

// `path` with the short name that the file uses for its last part.
std::string path_in_file(const config::Node& root, const std::string& path) {
  const std::string_view parent = parent_path(path);
  const std::optional<config::Node> holder = find_node(root, parent);
  if (!holder || holder->kind() != config::Node::Kind::map || holder->has(last_name(path))) return path;
  for (const Key& key : key_table()) {
    if (key.path != path) continue;
    for (const std::string_view name : key.short_names) {
      if (name.empty() || !holder->has(name)) continue;
      return parent.empty() ? std::string(name) : std::string(parent) + "." + std::string(name);
    }
  }
  return path;
}

void replace(config::Node& root, const std::string& path, const Override& source, const std::string& value,
             base::Faults& faults) {
  try {
    root = config::with_override(root, path, value, source.origin);
  } catch (const base::Error& error) {
    faults.add(error);
  }
}

// A count of chunks means the fixed rule, bins mean the adaptive one: "--vary memfine.chunks=1,2,4" works on either.
std::optional<std::string> implied_rule(const std::string& path) {
  if (path == std::string(kMemfine) + ".chunks") return "fixed";
  if (path == std::string(kMemfine) + ".bins") return "adaptive";
  return std::nullopt;
}

}  // namespace

std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    if (static_cast<unsigned char>(c) >= 0x20) result += c;
  }
  return result + "\"";
}

Overrides sort_overrides(const std::vector<std::pair<std::string, std::string>>& given, base::Faults& faults) {
  Overrides result;
  for (const auto& [key, value] : given) {
    const std::string origin = "--set " + key + "=" + value;
    try {
      const std::string path = scenario_path(key, origin);
      if (is_model_path(path)) {
        result.model.push_back({path.substr(path.find('.') + 1), value, origin});
      } else if (is_hardware_path(path)) {
        result.hardware.push_back({path.substr(path.find('.') + 1), value, origin});
      } else {
        result.scenario.push_back({path, value, origin});
      }
    } catch (const base::Error& error) {
      faults.add(error);
    }
  }
  return result;
}

config::Node with_scenario_overrides(config::Node root, const std::vector<Override>& overrides, base::Faults& faults) {
  const std::string rule_path = std::string(kMemfine) + ".rule";
  const bool sets_rule = std::any_of(overrides.begin(), overrides.end(), [&](const Override& entry) {
    return entry.path == rule_path || entry.path == kMemfine;
  });
  for (const Override& entry : overrides) {
    replace(root, path_in_file(root, entry.path), entry, entry.value, faults);
    const std::optional<std::string> rule = sets_rule ? std::nullopt : implied_rule(entry.path);
    if (rule) replace(root, rule_path, entry, *rule, faults);
  }
  return root;
}

config::Node with_model_overrides(config::Node root, const std::vector<Override>& overrides, base::Faults& faults) {
  for (const Override& entry : overrides) replace(root, entry.path, entry, entry.value, faults);
  return root;
}

config::Node with_hardware_overrides(config::Node root, const std::vector<Override>& overrides, base::Faults& faults) {
  for (const Override& entry : overrides) {
    const std::optional<config::Node> old = find_node(root, entry.path);
    const bool is_entry = old ? old->kind() == config::Node::Kind::map && old->has("value")
                              : topology::is_hardware_key(entry.path);  // one that the profile leaves out
    if (!is_entry || entry.value.find('{') != std::string::npos) {
      replace(root, entry.path, entry, entry.value, faults);
      continue;
    }
    replace(root, entry.path + ".value", entry, entry.value, faults);
    replace(root, entry.path + ".evidence", entry, "assumed", faults);
    replace(root, entry.path + ".source", entry, quoted(entry.origin), faults);
  }
  return root;
}

}  // namespace moeplan::scenario
