#include "measurements/fields.h"

#include <fmt/core.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "base/csv.h"

namespace moeplan::measurements {
namespace {

template <typename Number>
bool parse(std::string_view text, Number& value) {
  const auto [stop, failed] = std::from_chars(text.data(), text.data() + text.size(), value);
  return failed == std::errc{} && stop == text.data() + text.size();
}

// Whole numbers that somebody wrote as reals ("384.0") count.
bool parse_whole(std::string_view text, std::int64_t& value) {
  if (parse(text, value)) return true;
  double real = 0;
  if (!parse(text, real) || !(std::abs(real) < 1e15) || real != std::floor(real)) return false;
  value = static_cast<std::int64_t>(real);
  return true;
}

std::string_view without_spaces(std::string_view text) {
  while (text.starts_with(' ')) text.remove_prefix(1);
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

}  // namespace

const Cell* Fields::cell(std::string_view column) const {
  const auto found = row_.cells.find(column);
  return found == row_.cells.end() || found->second.text.empty() ? nullptr : &found->second;
}

std::string Fields::text(std::string_view column) const {
  const Cell* found = cell(column);
  return found == nullptr ? std::string() : found->text;
}

std::string Fields::first_text(std::initializer_list<const char*> columns) const {
  for (const char* column : columns) {
    if (const Cell* found = cell(column)) return found->text;
  }
  return {};
}

void Fields::fault(std::string_view column, std::string message) {
  const Cell* found = cell(column);
  row_.faults.push_back({found == nullptr ? row_.where : found->where, std::move(message), {}, {}});
}

void Fields::skip(std::string reason) {
  if (row_.reason.empty()) row_.reason = std::move(reason);
  row_.status = Status::skipped;
}

std::optional<std::int64_t> Fields::integer(std::string_view column, std::int64_t least, std::int64_t most) {
  const Cell* found = cell(column);
  if (found == nullptr) return std::nullopt;
  std::int64_t value = 0;
  if (parse_whole(found->text, value) && value >= least && value <= most) return value;
  fault(column,
        fmt::format("expected a whole number from {} to {}, got '{}'", least, most, base::shown_cell(found->text)));
  return std::nullopt;
}

std::optional<double> Fields::positive(std::string_view column) {
  const Cell* found = cell(column);
  if (found == nullptr) return std::nullopt;
  double value = 0;
  if (parse(found->text, value) && std::isfinite(value) && value > 0) return value;
  fault(column, fmt::format("expected a number > 0, got '{}'", base::shown_cell(found->text)));
  return std::nullopt;
}

std::vector<std::int64_t> Fields::integers(std::string_view column, std::int64_t most) {
  const Cell* found = cell(column);
  std::vector<std::int64_t> values;
  if (found == nullptr) return values;
  std::string_view rest = found->text;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(';'), rest.size());
    std::int64_t value = 0;
    if (!parse_whole(without_spaces(rest.substr(0, end)), value) || value < 0 || value > most) {
      fault(column, fmt::format("expected whole numbers >= 0 with semicolons between them, got '{}'",
                                base::shown_cell(found->text)));
      return {};
    }
    values.push_back(value);
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return values;
}

std::int64_t Fields::needed(std::string_view column, std::int64_t most) {
  if (cell(column) == nullptr) {
    skip(fmt::format("{} is not stated", column));
    return 0;
  }
  return integer(column, 1, most).value_or(0);
}

void Fields::unpack(std::string_view column) {
  const Cell* found = cell(column);
  if (found == nullptr) return;
  const Cell packed = *found;
  std::string_view rest = packed.text;
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(','), rest.size());
    const std::string_view part = without_spaces(rest.substr(0, end));
    const std::size_t equal = part.find('=');
    if (equal == std::string_view::npos || equal == 0 || equal + 1 == part.size()) {
      fault(column, fmt::format("expected key=value with commas between, got '{}'", base::shown_cell(part)));
      return;
    }
    row_.cells[std::string(part.substr(0, equal))] = {std::string(part.substr(equal + 1)), packed.where};
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
}

}  // namespace moeplan::measurements
