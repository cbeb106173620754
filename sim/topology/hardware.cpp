#include "topology/hardware.h"

#include <array>
#include <map>

#include "base/check.h"
#include "config/reader.h"
#include "topology/hardware_keys.h"

namespace moeplan::topology {
namespace {

const std::array<std::string, 4>& evidence_names() {
  static const std::array<std::string, 4> names = {"measured", "published", "datasheet", "assumed"};
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
  }
  MOEPLAN_CHECK(false, "unknown quantity");
}

Value read_value(config::Reader& section, const char* key, Quantity quantity) {
  config::Reader entry = section.map(key);
  Value value;
  value.value = read_number(entry, quantity);
  value.evidence = static_cast<Evidence>(entry.choice("evidence", evidence_names()));
  value.source = entry.text("source");
  entry.finish();
  return value;
}

}  // namespace

std::string evidence_name(Evidence evidence) { return evidence_names()[static_cast<std::size_t>(evidence)]; }

std::vector<std::pair<std::string, Value>> HardwareProfile::all() const {
  std::vector<std::pair<std::string, Value>> values;
  visit_values(*this, [&](const char* section, const char* key, const Value& value, Quantity) {
    values.emplace_back(std::string(section) + "." + key, value);
  });
  return values;
}

HardwareProfile read_hardware(const config::Node& root, const std::string& id, base::Faults& faults) {
  HardwareProfile profile;
  profile.id = id;
  profile.where = root.where();
  config::Reader reader(root, faults);
  profile.title = reader.text("title");
  profile.aliases = reader.texts("aliases");

  // One reader a section, opened at its first key and closed at the end, so that unknown keys of all sections show.
  std::map<std::string, config::Reader> sections;
  visit_values(profile, [&](const char* name, const char* key, Value& value, Quantity quantity) {
    auto section = sections.find(name);
    if (section == sections.end()) section = sections.emplace(name, reader.map(name)).first;
    value = read_value(section->second, key, quantity);
    if (&value == &profile.network.gpus_per_node) profile.where_gpus_per_node = section->second.where(key);
  });
  for (auto& [name, section] : sections) section.finish();
  reader.finish();
  return profile;
}

}  // namespace moeplan::topology
