#include <fmt/core.h>

#include <cmath>

#include "base/check.h"
#include "calibrate/fit.h"
#include "topology/hardware_keys.h"

namespace moeplan::calibrate {
namespace {

using topology::Quantity;
using topology::Value;

// Double quotes of YAML.
std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    const auto byte = static_cast<unsigned char>(c);
    result += byte < 0x20 ? fmt::format("\\x{:02x}", byte) : std::string(1, c);
  }
  return result + "\"";
}

std::string number(double value) { return fmt::format("{:.7g}", value); }

std::string written(double value, Quantity quantity) {
  switch (quantity) {
    case Quantity::bytes:
    case Quantity::bytes_or_none:
      return fmt::format("{:.0f} B", value);
    case Quantity::bytes_per_second:
      return number(value / 1e9) + " GB/s";
    case Quantity::flop_per_second:
      return number(value / 1e12) + " TFLOP/s";
    case Quantity::seconds:
      return number(value * 1e6) + " us";
    case Quantity::count:
      return fmt::format("{}", std::llround(value));
    case Quantity::flag:
      return value > 0 ? "true" : "false";
    case Quantity::length:
    case Quantity::exponent:
    case Quantity::efficiency:
    case Quantity::ratio:
    case Quantity::health:
    case Quantity::share:
    case Quantity::spread:
      return number(value);
  }
  MOEPLAN_CHECK(false, "unknown quantity");
}

std::string entry(const char* key, const Value& value, Quantity quantity, const std::string& indent) {
  return fmt::format("{}{}:\n{}  {{ value: {}, evidence: {}, source: {} }}\n", indent, key, indent,
                     written(value.value, quantity), topology::evidence_name(value.evidence), quoted(value.source));
}

std::string texts(const std::vector<std::string>& list) {
  std::string result;
  for (const std::string& text : list) result += (result.empty() ? "" : ", ") + quoted(text);
  return "[" + result + "]";
}

// Values of a library stand below its name, in sections, in the order of the key list.
std::string library_yaml(const topology::HardwareProfile::Library& library) {
  std::string text = fmt::format("  {}:\n    matches: {}\n", quoted(library.name), texts(library.matches));
  const topology::HardwareProfile none;
  std::string open;
  topology::visit_keys(none, [&](const char* section, const char* key, const auto&, Quantity quantity) {
    for (const auto& [path, value] : library.values) {
      if (path != std::string(section) + "." + key) continue;
      if (open != section) text += fmt::format("    {}:\n", section);
      open = section;
      text += entry(key, value, quantity, "      ");
    }
  });
  return text;
}

std::string quantities(const std::vector<double>& values, double unit, const char* name) {
  std::string text;
  for (const double value : values) text += fmt::format("{}{:.9g} {}", text.empty() ? "" : ", ", value / unit, name);
  return "[" + text + "]";
}

std::string collective_yaml(const topology::CollectiveEntry& entry) {
  std::string text =
      fmt::format("  - collective: {}\n    ranks: {}\n    nodes: {}\n",
                  topology::collective_names()[static_cast<std::size_t>(entry.kind)], entry.ranks, entry.nodes);
  if (!entry.fabric.empty()) text += fmt::format("    fabric: {}\n", quoted(entry.fabric));
  if (entry.link_rate > 0) text += fmt::format("    link: {}\n", written(entry.link_rate, Quantity::bytes_per_second));
  if (entry.sizes_bytes.empty()) {
    text += fmt::format("    latency: {}\n    bandwidth: {}\n    exponent: {}\n",
                        written(entry.latency_s, Quantity::seconds),
                        written(entry.bandwidth, Quantity::bytes_per_second), number(entry.exponent));
  } else {
    text += fmt::format("    sizes: {}\n    times: {}\n", quantities(entry.sizes_bytes, 1, "B"),
                        quantities(entry.times_s, 1e-6, "us"));
  }
  return text + fmt::format("    evidence: {}\n    source: {}\n", topology::evidence_name(entry.evidence),
                            quoted(entry.source));
}

}  // namespace

std::string profile_yaml(const topology::HardwareProfile& profile) {
  std::string text = "# Written by moeplan calibrate fit. Keys: docs/models.md, Hardware profiles.\n";
  text += fmt::format("title: {}\naliases: {}\n", quoted(profile.title), texts(profile.aliases));
  if (!profile.fabric.empty()) text += fmt::format("fabric: {}\n", quoted(profile.fabric));
  std::string open;
  topology::visit_values(profile, [&](const char* section, const char* key, const Value& value, Quantity quantity) {
    if (open != section) text += fmt::format("\n{}:\n", section);
    open = section;
    text += entry(key, value, quantity, "  ");
  });
  if (!profile.collectives.empty()) text += "\ncollectives:\n";
  for (const auto& entry : profile.collectives) text += collective_yaml(entry);
  if (!profile.libraries.empty()) text += "\nlibraries:\n";
  for (const auto& library : profile.libraries) text += library_yaml(library);
  if (!profile.shapes.empty()) text += "\nshapes:\n";
  for (const auto& shape : profile.shapes) {
    std::string sizes;
    for (const std::int64_t size : shape.sizes) sizes += fmt::format("{}{}", sizes.empty() ? "" : ", ", size);
    text += fmt::format("  - {{ op: {}, pass: {}, dtype: {}, sizes: [{}], time: {} }}\n", shape.op, shape.pass,
                        shape.dtype, sizes, written(shape.seconds, Quantity::seconds));
  }
  return text;
}

}  // namespace moeplan::calibrate
