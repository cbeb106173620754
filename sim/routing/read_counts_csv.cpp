#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <optional>

#include "base/file.h"
#include "base/nearest.h"
#include "routing/count_grid.h"
#include "routing/count_rows.h"
#include "routing/formats.h"

namespace moeplan::routing {
namespace {

constexpr std::string_view kUtf8Mark = "\xEF\xBB\xBF";  // spreadsheets write it

struct Cell {
  std::string_view text;
  int column = 0;
};

std::vector<Cell> cells_of(std::string_view line) {
  std::vector<Cell> cells;
  std::size_t start = 0;
  while (true) {
    const std::size_t comma = std::min(line.find(',', start), line.size());
    cells.push_back({line.substr(start, comma - start), static_cast<int>(start) + 1});
    if (comma == line.size()) return cells;
    start = comma + 1;
  }
}

// For messages: at most 40 bytes, and not a part of a character.
std::string shown(std::string_view text) {
  constexpr std::size_t kMostShown = 40;
  if (text.size() <= kMostShown) return std::string(text);
  std::size_t cut = kMostShown;
  while (cut > 0 && (static_cast<unsigned char>(text[cut]) & 0xC0u) == 0x80u) --cut;
  return std::string(text.substr(0, cut)) + "...";
}

enum class Key { step, layer, microbatch, source };
constexpr std::array<std::string_view, 4> kKeyNames = {"step", "layer", "microbatch", "source"};

class CsvReader {
 public:
  CsvReader(std::string_view text, const std::string& file) : text_(text), file_(file) { trace_.name = file; }

  CountTrace read() {
    if (text_.starts_with(kUtf8Mark)) text_.remove_prefix(kUtf8Mark.size());
    if (text_.empty()) throw base::Error(at(0, 0), "the file is empty");
    std::string_view line;
    next_line(line);
    header(line);
    throw_first(faults_);
    while (faults_.size() < kMostFaults && next_line(line)) row(line);
    if (faults_.empty() && trace_.rows.empty()) faults_.add(at(1, 0), "no rows after the header");
    if (faults_.empty()) add_grid_faults(trace_, kMostFaults, faults_);
    throw_first(faults_);
    return std::move(trace_);
  }

 private:
  base::Where at(int line, int column) const { return {file_, line, column, {}}; }

  bool next_line(std::string_view& line) {
    if (position_ >= text_.size()) return false;
    const std::size_t end = std::min(text_.find('\n', position_), text_.size());
    line = text_.substr(position_, end - position_);
    if (line.ends_with('\r')) line.remove_suffix(1);
    position_ = end + 1;
    ++number_;
    return true;
  }

  // The key columns in any order, then e0, e1, ...
  void header(std::string_view line) {
    const std::vector<Cell> cells = cells_of(line);
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
      faults_.add(at(1, cells[i].column), fmt::format("expected column '{}', got '{}'", wanted, shown(cells[i].text)));
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
    faults_.add(at(1, cell.column), fmt::format("unknown column '{}'", shown(cell.text)), std::move(hint));
  }

  void row(std::string_view line) {
    const std::size_t width = keys_.size() + static_cast<std::size_t>(trace_.experts);
    const std::vector<Cell> cells = cells_of(line);
    if (line.empty()) return faults_.add(at(number_, 0), "an empty line");
    if (cells.size() != width) {
      return faults_.add(at(number_, 0), fmt::format("{} cells, but the header has {}", cells.size(), width));
    }
    CountTrace::Row row;
    row.line = number_;
    bool good = true;
    for (std::size_t i = 0; i < keys_.size(); ++i) {
      const std::optional<std::int64_t> value = whole_number(cells[i], kKeyNames[static_cast<std::size_t>(keys_[i])]);
      good = good && value.has_value();
      set_key(row, keys_[i], value.value_or(0));
    }
    std::int64_t sum = 0;
    for (std::size_t i = keys_.size(); i < width && good; ++i) {
      const std::optional<std::int64_t> value = whole_number(cells[i], "a count");
      good = value.has_value();
      sum += value.value_or(0);  // both at most 10^15
      if (good && sum > kLargestSum) {
        faults_.add(at(number_, cells[i].column), "the counts of the row sum to more than 10^15");
        good = false;
      }
      trace_.counts.push_back(value.value_or(0));
    }
    if (good && sum == 0) faults_.add(at(number_, 0), "all counts of the row are 0");
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
    faults_.add(at(number_, cell.column), fmt::format("{}: expected {}, got '{}'", what, expected, shown(cell.text)));
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

  std::string_view text_;
  std::string file_;
  std::size_t position_ = 0;
  int number_ = 0;
  std::vector<Key> keys_;
  CountTrace trace_;
  base::Faults faults_;
};

}  // namespace

bool is_counts_csv(const std::string& path) { return is_file_with_suffix(path, ".csv"); }

CountTrace parse_counts_csv(std::string_view text, const std::string& file) { return CsvReader(text, file).read(); }

Trace read_counts_csv(const TracePath& path, std::int64_t) {
  return parse_counts_csv(base::read_text(path.file), path.file);
}

}  // namespace moeplan::routing
