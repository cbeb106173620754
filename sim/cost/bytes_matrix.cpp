#include "cost/bytes_matrix.h"

#include <fmt/core.h>

#include <charconv>
#include <cmath>

#include "base/csv.h"

namespace moeplan::cost {
namespace {

constexpr std::size_t kMostFaults = 100;
constexpr double kMostBytes = 1e15;  // of one pair: doubles hold sums of them exactly enough

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

// The whole number >= 0 of a cell, also as 1e6 or 1000000.0; -1 for another text.
std::int64_t bytes_of(std::string_view text) {
  if (text.empty() || text[0] < '0' || text[0] > '9') return -1;  // no sign, nan or inf
  double value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || end != text.data() + text.size()) return -1;
  if (!(value <= kMostBytes) || value != std::floor(value)) return -1;
  return std::llround(value);
}

}  // namespace

BytesMatrix read_bytes_matrix(std::string_view text, const std::string& file, base::Faults& faults) {
  BytesMatrix matrix;
  base::CsvReader reader(text, file);
  std::vector<base::CsvCell> cells;
  std::size_t told = 0, lines = 0;
  const auto fault = [&](int line, int column, std::string message) {
    if (told++ < kMostFaults) faults.add({file, line, column, {}}, std::move(message));
  };
  while (reader.next(cells)) {
    if (cells.size() == 1 && trimmed(cells[0].text).empty()) continue;
    if (lines++ == 0) {
      matrix.ranks = cells.size();
      if (matrix.ranks > kMostMatrixRanks) {
        fault(reader.line(), 0, fmt::format("expected at most {} ranks, got {}", kMostMatrixRanks, matrix.ranks));
        return {};
      }
    }
    if (cells.size() != matrix.ranks)
      fault(reader.line(), 0,
            fmt::format("expected {} cells as in the first line, got {}", matrix.ranks, cells.size()));
    if (lines > matrix.ranks) continue;
    for (const base::CsvCell& cell : cells) {
      const std::int64_t bytes = bytes_of(trimmed(cell.text));
      if (bytes < 0)
        fault(cell.line, cell.column,
              fmt::format("expected a whole number of bytes from 0 to 1e15, got '{}'", base::shown_cell(cell.text)));
      matrix.bytes.push_back(bytes);
    }
  }
  if (lines == 0) {
    fault(0, 0, "expected a line of bytes for each rank, got none");
  } else if (lines != matrix.ranks) {
    fault(reader.line(), 0, fmt::format("expected as many lines as columns ({}), got {}", matrix.ranks, lines));
  }
  return matrix;
}

}  // namespace moeplan::cost
