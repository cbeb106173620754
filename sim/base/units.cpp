#include "base/units.h"

#include <fmt/core.h>

#include <charconv>
#include <cmath>
#include <system_error>

namespace moeplan::base {
namespace {

// Factor of a decimal prefix ("", k, M, G, T, P, E; K as k), or of a binary one (Ki ... Ti) where they are allowed.
std::optional<double> prefix_factor(std::string_view prefix, bool binary_allowed) {
  struct Entry {
    std::string_view name;
    double factor;
  };
  constexpr Entry kDecimal[] = {{"", 1.0},  {"k", 1e3},  {"K", 1e3},  {"M", 1e6},
                                {"G", 1e9}, {"T", 1e12}, {"P", 1e15}, {"E", 1e18}};
  constexpr Entry kBinary[] = {{"Ki", 1024.0}, {"Mi", kMiB}, {"Gi", kGiB}, {"Ti", 1024.0 * kGiB}};
  for (const Entry& entry : kDecimal) {
    if (entry.name == prefix) return entry.factor;
  }
  if (binary_allowed) {
    for (const Entry& entry : kBinary) {
      if (entry.name == prefix) return entry.factor;
    }
  }
  return std::nullopt;
}

// The unit without `ending`, as a prefix; nothing when the unit does not end so.
std::optional<double> factor_before(std::string_view unit, std::string_view ending, bool binary_allowed) {
  if (!unit.ends_with(ending)) return std::nullopt;
  unit.remove_suffix(ending.size());
  return prefix_factor(unit, binary_allowed);
}

std::optional<double> bytes_factor(std::string_view unit) {
  if (const auto bytes = factor_before(unit, "B", true)) return bytes;
  if (const auto bits = factor_before(unit, "b", true)) return *bits / 8.0;
  return std::nullopt;
}

std::optional<double> seconds_factor(std::string_view unit) {
  if (unit == "s") return 1.0;
  if (unit == "ms") return 1e-3;
  if (unit == "us" || unit == "\xC2\xB5s" || unit == "\xCE\xBCs") return 1e-6;  // the micro sign and the Greek mu
  if (unit == "ns") return 1e-9;
  return std::nullopt;
}

std::optional<double> unit_factor(std::string_view unit, Dimension dimension) {
  switch (dimension) {
    case Dimension::bytes:
      return bytes_factor(unit);
    case Dimension::bytes_per_second:
      if (!unit.ends_with("/s")) return std::nullopt;
      return bytes_factor(unit.substr(0, unit.size() - 2));
    case Dimension::seconds:
      return seconds_factor(unit);
    case Dimension::flop_per_second:
      if (const auto factor = factor_before(unit, "FLOP/s", false)) return factor;
      return factor_before(unit, "FLOPS", false);
    case Dimension::hertz:
      return factor_before(unit, "Hz", false);
  }
  return std::nullopt;
}

}  // namespace

std::string dimension_example(Dimension dimension) {
  switch (dimension) {
    case Dimension::bytes:
      return "a size such as '80 GiB'";
    case Dimension::bytes_per_second:
      return "a bandwidth such as '450 GB/s'";
    case Dimension::seconds:
      return "a time such as '12 us'";
    case Dimension::flop_per_second:
      return "a compute rate such as '989 TFLOP/s'";
    case Dimension::hertz:
      return "a frequency such as '1980 MHz'";
  }
  return "a quantity with its unit";
}

std::optional<double> parse_quantity(std::string_view text, Dimension dimension) {
  // from_chars takes signs, "inf" and "nan": a first character of digit or point keeps them out.
  if (text.empty() || !((text[0] >= '0' && text[0] <= '9') || text[0] == '.')) return std::nullopt;
  double number = 0.0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (status != std::errc()) return std::nullopt;
  std::string_view unit = text.substr(static_cast<std::size_t>(end - text.data()));
  while (!unit.empty() && unit.front() == ' ') unit.remove_prefix(1);
  const std::optional<double> factor = unit_factor(unit, dimension);
  if (!factor) return std::nullopt;
  // Small units divide: 12 us is then the double nearest to 12e-6, and 1.5 ms that of 1.5e-3.
  const double value = *factor < 1.0 ? number / std::round(1.0 / *factor) : number * *factor;
  if (!std::isfinite(value)) return std::nullopt;
  return value;
}

std::string printable(std::string_view text) {
  std::string out;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    out += byte < 0x20 || byte == 0x7f ? fmt::format("\\x{:02x}", byte) : std::string(1, c);
  }
  return out;
}

std::string format_gib(double bytes) { return fmt::format("{:.2f} GiB", bytes / kGiB); }

std::string format_time(double seconds) {
  // The unit is chosen after rounding: 0.99996 s reads "1.000 s", not "1000.0 ms".
  const double size = std::fabs(seconds);
  if (!(size < 0.99995)) return fmt::format("{:.3f} s", seconds);
  if (size >= 0.99995e-3) return fmt::format("{:.1f} ms", seconds * 1e3);
  return fmt::format("{:.1f} us", seconds * 1e6);
}

std::string format_rate(double bytes_per_second) { return fmt::format("{:.1f} GB/s", bytes_per_second / 1e9); }

}  // namespace moeplan::base
