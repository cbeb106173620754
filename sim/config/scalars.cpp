#include "config/scalars.h"

#include <fmt/core.h>

#include <charconv>
#include <cmath>
#include <string_view>
#include <system_error>

namespace moeplan::config {
namespace {

bool all_of(std::string_view text, std::string_view allowed) {
  return text.find_first_not_of(allowed) == std::string_view::npos;
}

bool looks_like_number(std::string_view text) { return text.find_first_of("0123456789") == 0; }

}  // namespace

std::string quotes_hint(const Node& node) {
  if (node.kind() != Node::Kind::scalar || !node.quoted()) return "";
  const std::string text = node.scalar();
  return looks_like_number(text) || text == "true" || text == "false" ? "write it without quotes" : "";
}

ParsedInteger parse_integer(const Node& node) {
  if (node.kind() != Node::Kind::scalar) return {};
  if (node.quoted()) return {std::nullopt, quotes_hint(node)};
  const std::string text = node.scalar();
  std::string_view digits = text;
  if (digits.starts_with('-')) digits.remove_prefix(1);
  const bool plain = !digits.empty() && all_of(digits, "0123456789") && (digits == "0" || digits[0] != '0');
  std::int64_t value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (plain && status == std::errc()) return {value, {}};
  if (plain || !looks_like_number(digits)) return {};
  return {std::nullopt, "write an integer in plain decimal digits, such as 4096"};
}

ParsedReal parse_real(const Node& node) {
  if (node.kind() != Node::Kind::scalar) return {};
  if (node.quoted()) return {std::nullopt, quotes_hint(node)};
  const std::string text = node.scalar();
  if (!all_of(text, "0123456789.eE+-")) {
    return {std::nullopt, looks_like_number(text) ? "write a bare number, such as 0.94 or 1e-3" : ""};
  }
  double value = 0.0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || end != text.data() + text.size()) return {};
  return {value, {}};
}

bool contains(const RealRange& range, double value) {
  return (range.open_low ? value > range.low : value >= range.low) && value <= range.high;
}

std::string describe_range(const IntRange& range, bool show_high) {
  if (range.high == IntRange{}.high && !show_high) return fmt::format("an integer >= {}", range.low);
  return fmt::format("an integer from {} to {}", range.low, range.high);
}

std::string describe_range(const RealRange& range, const std::string& unit, bool show_high) {
  const std::string suffix = unit.empty() ? "" : " " + unit;
  const bool high = range.high != RealRange{}.high || show_high;
  if (!high) return fmt::format(" {} {}{}", range.open_low ? ">" : ">=", range.low, suffix);
  if (range.open_low) return fmt::format(" > {}{} and <= {}{}", range.low, suffix, range.high, suffix);
  return fmt::format(" from {}{} to {}{}", range.low, suffix, range.high, suffix);
}

std::string unit_hint(const Node& node) {
  const bool bare =
      node.kind() == Node::Kind::scalar && looks_like_number(node.scalar()) && all_of(node.scalar(), "0123456789.eE+-");
  return bare ? "a number alone has no unit: write the unit after it" : "";
}

std::string unit_name(base::Dimension dimension) {
  switch (dimension) {
    case base::Dimension::bytes:
      return "bytes";
    case base::Dimension::bytes_per_second:
      return "B/s";
    case base::Dimension::seconds:
      return "s";
    case base::Dimension::flop_per_second:
      return "FLOP/s";
    case base::Dimension::hertz:
      return "Hz";
  }
  return "";
}

}  // namespace moeplan::config
