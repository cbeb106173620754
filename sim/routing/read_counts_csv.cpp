#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "base/csv.h"
#include "base/file.h"
#include "base/nearest.h"
#include "routing/count_grid.h"
#include "routing/count_rows.h"
#include "routing/formats.h"

namespace moeplan::routing {
namespace {

using Cell = base::CsvCell;

enum class Key { step, layer, microbatch, source };
constexpr std::array<std::string_view, 4> kKeyNames = {"step", "layer", "microbatch", "source"};

class CountsReader {
 public:
  CountsReader(std::string_view text, const std::string& file) : csv_(text, file), file_(file) { trace_.name = file; }

  CountTrace read() {
    if (csv_.empty()) throw base::Error(at(0, 0), "the file is empty");
    std::vector<Cell> cells;
    csv_.next(cells);
    header(cells);
    throw_first(faults_);
    while (faults_.size() < kMostFaults && csv_.next(cells)) row(cells);
    if (faults_.empty() && trace_.rows.empty()) faults_.add(at(1, 0), "no rows after the header");
    if (faults_.empty()) add_grid_faults(trace_, kMostFaults, faults_);
    throw_first(faults_);
    return std::move(trace_);
  }

 private:
  base::Where at(int line, int column) const { return {file_, line, column, {}}; }

  // The key columns in any order, then e0, e1, ...
  void header(const std::vector<Cell>& cells) {
    std::size_t i = 0;
    for (; i < cells.size() && cells[i].text != "e0"; ++i) {
      const auto name = std::find(kKeyNames.begin(), kKeyNames.end(), cells[i].text);
      if (name == kKeyNames.end()) {
        unknown_column(cells[i]);
        continue;
      }
      const auto key = static_cast<Key>(name - kKeyNames.begin());
      if (std::find(keys_.begin(), keys_.end(), key) != keys_.end()) {
        faults_.add(at(1, cells[i].column), fmt::format("column '{}' stands twice", cells[i].text));
      }
      keys_.push_back(key);
    }
    for (const Key key : {Key::step, Key::layer}) {
      if (std::find(keys_.begin(), keys_.end(), key) == keys_.end()) {
        faults_.add(at(1, 0), fmt::format("column '{}' is missing", kKeyNames[static_cast<std::size_t>(key)]));
      }
    }
    if (i == cells.size()) faults_.add(at(1, 0), "the columns of counts e0, e1, ... are missing");
    const std::size_t first = i;
    for (; i < cells.size(); ++i) {
      const std::string wanted = fmt::format("e{}", i - first);
      if (cells[i].text == wanted) continue;
      faults_.add(at(1, cells[i].column),
                  fmt::format("expected column '{}', got '{}'", wanted, base::shown_cell(cells[i].text)));
      return;
    }
    if (cells.size() - first > kMostExperts) faults_.add(at(1, 0), "more than 65,535 experts");
    trace_.experts = static_cast<std::int64_t>(cells.size() - first);
  }

  void unknown_column(const Cell& cell) {
    if (faults_.size() >= kMostFaults) return;
    const std::vector<std::string> names(kKeyNames.begin(), kKeyNames.end());
    std::string hint = base::nearest_hint(cell.text, names);
    if (hint.empty()) hint = "expected step, layer, microbatch, source, then e0, e1, ...";
    faults_.add(at(1, cell.column), fmt::format("unknown column '{}'", base::shown_cell(cell.text)), std::move(hint));
  }

  void row(const std::vector<Cell>& cells) {
    const std::size_t width = keys_.size() + static_cast<std::size_t>(trace_.experts);
    if (cells.size() == 1 && cells[0].text.empty()) return faults_.add(at(csv_.line(), 0), "an empty line");
    if (cells.size() != width) {
      return faults_.add(at(csv_.line(), 0), fmt::format("{} cells, but the header has {}", cells.size(), width));
    }
    CountTrace::Row row;
    row.line = csv_.line();
    bool good = true;
    for (std::size_t i = 0; i < keys_.size(); ++i) {
      const std::optional<std::int64_t> value = whole_number(cells[i], kKeyNames[static_cast<std::size_t>(keys_[i])]);
      good = good && value.has_value();
      set_key(row, keys_[i], value.value_or(0));
    }
    std::int64_t sum = 0;
    std::vector<std::int64_t> counts;
    for (std::size_t i = keys_.size(); i < width && good; ++i) {
      const std::optional<std::int64_t> value = whole_number(cells[i], "a count");
      good = value.has_value();
      sum += value.value_or(0);  // both at most 10^15
      if (good && sum > kLargestSum) {
        faults_.add(at(cells[i].line, cells[i].column), "the counts of the row sum to more than 10^15");
        good = false;
      }
      counts.push_back(value.value_or(0));
    }
    trace_.counts.append(counts);
    if (good && sum == 0) faults_.add(at(csv_.line(), 0), "all counts of the row are 0");
    trace_.rows.push_back(row);
  }

  std::optional<std::int64_t> whole_number(const Cell& cell, std::string_view what) {
    std::int64_t value = 0;
    const char* end = cell.text.data() + cell.text.size();
    const auto [stop, failed] = std::from_chars(cell.text.data(), end, value);
    const bool number = failed != std::errc::invalid_argument && stop == end;
    if (number && failed == std::errc{} && value >= 0 && value <= kLargestSum) return value;
    const bool negative = number && cell.text.starts_with('-');
    const char* expected = number && !negative ? "at most 10^15" : "a whole number >= 0";
    faults_.add(at(cell.line, cell.column),
                fmt::format("{}: expected {}, got '{}'", what, expected, base::shown_cell(cell.text)));
    return std::nullopt;
  }

  static void set_key(CountTrace::Row& row, Key key, std::int64_t value) {
    switch (key) {
      case Key::step:
        row.step = value;
        break;
      case Key::layer:
        row.layer = value;
        break;
      case Key::microbatch:
        row.microbatch = value;
        break;
      case Key::source:
        row.source = value;
        break;
    }
  }

  base::CsvReader csv_;
  std::string file_;
  std::vector<Key> keys_;
  CountTrace trace_;
  base::Faults faults_;
};

}  // namespace

bool is_counts_csv(const std::string& path) { return is_file_with_suffix(path, ".csv"); }

CountTrace parse_counts_csv(std::string_view text, const std::string& file) { return CountsReader(text, file).read(); }

Trace read_counts_csv(const TracePath& path, std::int64_t) {
  return parse_counts_csv(base::read_text(path.file), path.file);
}

}  // namespace moeplan::routing
