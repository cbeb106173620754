#include "layer/count_lines.h"

#include <cmath>
#include <cstdlib>
#include <sstream>

namespace moeplan::layer {
namespace {

std::vector<std::string> cells_of(const std::string& line) {
  std::vector<std::string> cells;
  std::string cell;
  for (const char c : line + ",") {
    const bool separates = c == ',' || c == ';' || c == ' ' || c == '\t' || c == '\r';
    if (!separates) cell += c;
    if (!separates || cell.empty()) continue;
    cells.push_back(cell);
    cell.clear();
  }
  return cells;
}

[[noreturn]] void fail(const std::string& file, int line, const std::string& what) {
  throw CountsError(file + ":" + std::to_string(line) + ": " + what);
}

double count_of(const std::string& cell, const std::string& file, int line) {
  char* end = nullptr;
  const double value = std::strtod(cell.c_str(), &end);
  if (*end != '\0' || !std::isfinite(value) || value < 0) fail(file, line, "expected a count >= 0, got '" + cell + "'");
  return value;
}

}  // namespace

std::vector<CountLine> parse_count_lines(const std::string& text, const std::string& file, int experts) {
  std::vector<CountLine> lines;
  std::vector<std::string> keys;  // columns before e0
  std::istringstream in(text);
  std::string line;
  for (int number = 1; std::getline(in, line); ++number) {
    const std::vector<std::string> cells = cells_of(line);
    if (cells.empty() || cells[0][0] == '#') continue;
    const bool header = lines.empty() && keys.empty() && (cells[0][0] < '0' || cells[0][0] > '9');
    if (header) {
      for (std::size_t i = 0; i < cells.size() && cells[i] != "e0"; ++i) keys.push_back(cells[i]);
      if (keys.size() == cells.size()) fail(file, number, "expected counts or a header with the column e0");
      continue;
    }
    CountLine counts;
    counts.line = number;
    const std::size_t wanted = keys.size() + static_cast<std::size_t>(experts);
    if (cells.size() != wanted)
      fail(file, number, "expected " + std::to_string(wanted) + " values, got " + std::to_string(cells.size()));
    for (std::size_t i = 0; i < keys.size(); ++i) counts.key += (i > 0 ? ", " : "") + keys[i] + " " + cells[i];
    double sum = 0;
    for (std::size_t i = keys.size(); i < cells.size(); ++i) {
      counts.weights.push_back(count_of(cells[i], file, number));
      sum += counts.weights.back();
    }
    if (!(sum > 0)) fail(file, number, "all counts are 0");
    lines.push_back(counts);
  }
  if (lines.empty()) fail(file, 1, "no counts");
  return lines;
}

}  // namespace moeplan::layer
