#include "topology/hardware.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>

#include "base/check.h"
#include "config/reader.h"
#include "topology/hardware_checks.h"
#include "topology/hardware_keys.h"
#include "topology/hardware_shapes.h"

namespace moeplan::topology {
namespace {

const std::array<std::string, 2>& flag_names() {
  static const std::array<std::string, 2> names = {"false", "true"};
  return names;
}

constexpr config::RealRange kPositive{0.0, 1e18, true};

// The plain number of an entry, in base units; faults go to the reader's collector.
double read_number(config::Reader& entry, Quantity quantity) {
  switch (quantity) {
    case Quantity::bytes:
      return entry.quantity("value", base::Dimension::bytes, kPositive);
    case Quantity::bytes_or_none:
      return entry.quantity("value", base::Dimension::bytes);
    case Quantity::bytes_per_second:
      return entry.quantity("value", base::Dimension::bytes_per_second, kPositive);
    case Quantity::flop_per_second:
      return entry.quantity("value", base::Dimension::flop_per_second, {0.0, 1e21, true});
    case Quantity::seconds:
      return entry.quantity("value", base::Dimension::seconds, {0.0, 1e3, false});
    case Quantity::count:
      return static_cast<double>(entry.integer("value", {1, 1'000'000}));
    case Quantity::length:
      return entry.real("value", {0.0, 1e9, false});
    case Quantity::exponent:
      return entry.real("value", {0.0, 16.0, true});
    case Quantity::efficiency:
      return entry.real("value", {0.0, 1.5, true});
    case Quantity::ratio:
      return entry.real("value", {1.0, 1e3, false});
    case Quantity::health:
      return entry.real("value", {0.5, 1.0, false});
    case Quantity::spread:
      return entry.real("value", {0.0, 2.0, true});
    case Quantity::flag:
      return static_cast<double>(entry.choice("value", flag_names()));
  }
  MOEPLAN_CHECK(false, "unknown quantity");
}

Value read_value(config::Reader entry, Quantity quantity) {
  Value value;
  value.value = read_number(entry, quantity);
  value.evidence = static_cast<Evidence>(entry.choice("evidence", evidence_names()));
  value.source = entry.text("source");
  entry.finish();
  return value;
}

HardwareProfile::Library read_library(config::Reader reader, const std::string& name) {
  HardwareProfile::Library library;
  library.name = name;
  library.matches = reader.texts("matches");
  if (library.matches.empty())
    reader.fault("matches", "missing key 'matches': texts that the library's names in tables hold");
  std::map<std::string, std::optional<config::Reader>> sections;
  const HardwareProfile none;
  visit_keys(none, [&](const char* section, const char* key, const auto&, Quantity quantity) {
    auto found = sections.find(section);
    if (found == sections.end()) found = sections.emplace(section, reader.map_if(section)).first;
    if (!found->second) return;
    std::optional<config::Reader> entry = found->second->map_if(key);
    if (entry) library.values.emplace_back(std::string(section) + "." + key, read_value(std::move(*entry), quantity));
  });
  for (auto& [section, opened] : sections) {
    if (opened) opened->finish();
  }
  reader.finish();
  return library;
}

std::vector<HardwareProfile::Library> read_libraries(const config::Node& libraries, base::Faults& faults) {
  std::vector<HardwareProfile::Library> result;
  if (libraries.kind() != config::Node::Kind::map) {
    faults.add(libraries.where(), "expected a mapping of library names, got " + libraries.describe());
    return result;
  }
  for (const std::string& name : libraries.keys()) {
    result.push_back(read_library(config::Reader(libraries.at(name), faults), name));
  }
  return result;
}

}  // namespace

std::int64_t HardwareProfile::Network::domain_gpus() const {
  if (ranks_per_domain) return std::llround(ranks_per_domain->value);
  return std::llround(scale_up_domain ? scale_up_domain->value : gpus_per_node.value);
}

const std::array<std::string, 4>& evidence_names() {
  static const std::array<std::string, 4> names = {"measured", "published", "datasheet", "assumed"};
  return names;
}

std::string evidence_name(Evidence evidence) { return evidence_names()[static_cast<std::size_t>(evidence)]; }

std::vector<std::pair<std::string, Value>> HardwareProfile::all() const {
  std::vector<std::pair<std::string, Value>> values;
  visit_values(*this, [&](const char* section, const char* key, const Value& value, Quantity) {
    values.emplace_back(std::string(section) + "." + key, value);
  });
  for (const Library& library : libraries) {
    for (const auto& [key, value] : library.values) values.emplace_back("libraries." + library.name + "." + key, value);
  }
  return values;
}

bool is_hardware_key(std::string_view path) {
  bool found = false;
  HardwareProfile none;
  visit_keys(none, [&](const char* section, const char* key, const auto&, Quantity) {
    found = found || path == std::string(section) + "." + key;
  });
  return found;
}

const CollectiveEntry* HardwareProfile::collective(CollectiveKind kind, std::int64_t ranks, std::int64_t nodes) const {
  const auto find = [&](const std::string& wanted_fabric) -> const CollectiveEntry* {
    const auto wanted = std::tie(kind, ranks, nodes, wanted_fabric);
    const auto key = [](const CollectiveEntry& entry) {
      return std::tie(entry.kind, entry.ranks, entry.nodes, entry.fabric);
    };
    const auto found = std::lower_bound(collectives.begin(), collectives.end(), wanted,
                                        [&](const CollectiveEntry& entry, const auto& at) { return key(entry) < at; });
    return found == collectives.end() || key(*found) != wanted ? nullptr : &*found;
  };
  if (!fabric.empty())
    if (const CollectiveEntry* own = find(fabric)) return own;
  return find({});
}

HardwareProfile read_hardware(const config::Node& root, const std::string& id, base::Faults& faults) {
  HardwareProfile profile;
  const std::size_t before = faults.size();
  profile.id = id;
  profile.where = root.where();
  config::Reader reader(root, faults);
  profile.title = reader.text("title");
  profile.aliases = reader.texts("aliases");

  // One reader a section, opened at its first key and closed at the end, so that unknown keys of all sections show.
  std::map<std::string, config::Reader> sections;
  const auto open = [&](const char* name, bool required) -> config::Reader* {
    const auto section = sections.find(name);
    if (section != sections.end()) return &section->second;
    if (required) return &sections.emplace(name, reader.map(name)).first->second;
    std::optional<config::Reader> found = reader.map_if(name);
    return found ? &sections.emplace(name, std::move(*found)).first->second : nullptr;
  };
  visit_keys(profile, [&](const char* name, const char* key, auto& value, Quantity quantity) {
    constexpr bool required = std::is_same_v<std::remove_reference_t<decltype(value)>, Value>;
    config::Reader* section = open(name, required);
    if (section == nullptr) return;
    if constexpr (required) {
      value = read_value(section->map(key), quantity);
    } else if (std::optional<config::Reader> entry = section->map_if(key)) {
      value = read_value(std::move(*entry), quantity);
    }
  });
  profile.fabric = reader.text_or("fabric", "");
  profile.collectives = read_collectives(reader, "collectives", faults);
  config::Reader& network = sections.at("network");
  profile.where_gpus_per_node = network.where("gpus_per_node");
  if (faults.size() == before) {  // rules between keys: only of values that hold
    check_network(profile.network, network);
    if (const auto dispatch = sections.find("dispatch"); dispatch != sections.end())
      check_dispatch(profile, dispatch->second);
    check_peaks(profile, sections.at("gemm"));
  }
  for (auto& [name, section] : sections) section.finish();
  if (const std::optional<config::Node> libraries = reader.node_if("libraries"))
    profile.libraries = read_libraries(*libraries, faults);
  profile.shapes = read_shapes(reader);
  reader.finish();
  return profile;
}

}  // namespace moeplan::topology
