#include "topology/hardware.h"

#include <fmt/core.h>

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

// What a number of a kind may be, in base units. Counts are whole, flags are names.
config::RealRange range_of(Quantity quantity) {
  switch (quantity) {
    case Quantity::bytes:
    case Quantity::bytes_per_second:
      return {0.0, 1e18, true};
    case Quantity::bytes_or_none:
      return {};
    case Quantity::flop_per_second:
      return {0.0, 1e21, true};
    case Quantity::seconds:
      return {0.0, 1e3, false};
    case Quantity::count:
      return {1.0, 1e6, false};
    case Quantity::length:
      return {0.0, 1e9, false};
    case Quantity::exponent:
      return {0.0, 16.0, true};
    case Quantity::efficiency:
      return {0.0, 1.5, true};
    case Quantity::ratio:
      return {1.0, 1e3, false};
    case Quantity::health:
      return {0.5, 1.0, false};
    case Quantity::share:
      return {0.0, 1.0, true};
    case Quantity::spread:
      return {0.0, 2.0, true};
    case Quantity::flag:
      return {0.0, 1.0, false};
  }
  MOEPLAN_CHECK(false, "unknown quantity");
}

// The plain number of an entry, in base units; faults go to the reader's collector.
double read_number(config::Reader& entry, Quantity quantity) {
  const config::RealRange range = range_of(quantity);
  switch (quantity) {
    case Quantity::bytes:
    case Quantity::bytes_or_none:
      return entry.quantity("value", base::Dimension::bytes, range);
    case Quantity::bytes_per_second:
      return entry.quantity("value", base::Dimension::bytes_per_second, range);
    case Quantity::flop_per_second:
      return entry.quantity("value", base::Dimension::flop_per_second, range);
    case Quantity::seconds:
      return entry.quantity("value", base::Dimension::seconds, range);
    case Quantity::count:
      return static_cast<double>(entry.integer("value", {std::llround(range.low), std::llround(range.high)}));
    case Quantity::flag:
      return static_cast<double>(entry.choice("value", flag_names()));
    case Quantity::length:
    case Quantity::exponent:
    case Quantity::efficiency:
    case Quantity::ratio:
    case Quantity::health:
    case Quantity::share:
    case Quantity::spread:
      return entry.real("value", range);
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

void HardwareProfile::Gemm::drop_sustained() {
  for (OptionalValue* rate : {&sustained, &sustained_fp8, &sustained_mxfp8, &sustained_fp4}) rate->reset();
  in_steps.reset();
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

std::string value_fault(std::string_view path, double value) {
  std::optional<Quantity> quantity;
  HardwareProfile none;
  visit_keys(none, [&](const char* section, const char* key, const auto&, Quantity kind) {
    if (path == std::string(section) + "." + key) quantity = kind;
  });
  MOEPLAN_CHECK(quantity.has_value(), "a value has the key of a profile");
  const config::RealRange range = range_of(*quantity);
  const bool whole = *quantity == Quantity::count;
  const bool is_bytes = *quantity == Quantity::bytes || *quantity == Quantity::bytes_or_none;
  const double read = is_bytes ? std::round(value) : value;  // as a profile's reader takes it
  const bool low = range.open_low ? read > range.low : read >= range.low;
  if (low && read <= range.high && (!whole || read == std::floor(read))) return {};
  return fmt::format("expected {} {} {:g}, at most {:g}, got {:g}", whole ? "a whole number" : "a number",
                     range.open_low ? ">" : ">=", range.low, range.high, value);
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
