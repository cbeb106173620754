#pragma once
#include <cstdint>
#include <optional>
#include <string>

#include "config/document.h"
#include "config/reader.h"

// How Reader reads one scalar, and how it says what it expected. For the sources of this folder only.
namespace moeplan::config {

struct ParsedInteger {
  std::optional<std::int64_t> value;
  std::string hint;  // why a text that looks like a number is none
};
struct ParsedReal {
  std::optional<double> value;
  std::string hint;
};

// Decimal digits with an optional '-': no '+', no leading zero, no point, exponent, base prefix, separator or quotes.
ParsedInteger parse_integer(const Node& node);
// A finite decimal, with or without exponent; no infinity, NaN, base prefix, separator or quotes.
ParsedReal parse_real(const Node& node);

bool contains(const RealRange& range, double value);

// "an integer >= 1", or "an integer from 1 to 8" when the upper end matters.
std::string describe_range(const IntRange& range, bool show_high);
// " >= 0", " > 0", " from 0 to 1" with the unit after each number.
std::string describe_range(const RealRange& range, const std::string& unit, bool show_high);

std::string quotes_hint(const Node& node);         // "write it without quotes" for a quoted number or flag, else ""
std::string unit_hint(const Node& node);           // for a bare number where a quantity with a unit was expected
std::string unit_name(base::Dimension dimension);  // of the base unit: "bytes", "s", ...

}  // namespace moeplan::config
