#include "base/csv.h"

#include <algorithm>
#include <utility>

namespace moeplan::base {

namespace {

constexpr std::string_view kUtf8Mark = "\xEF\xBB\xBF";

}  // namespace

CsvReader::CsvReader(std::string_view text, std::string file) : text_(text), file_(std::move(file)) {
  if (text_.starts_with(kUtf8Mark)) text_.remove_prefix(kUtf8Mark.size());
}

Where CsvReader::here() const { return {file_, line_, static_cast<int>(at_ - line_start_) + 1, {}}; }

// The text between quotes; starts behind the first one and ends behind the last.
std::string_view CsvReader::quoted() {
  const Where start = here();
  const std::size_t first = ++at_;
  std::string* joined = nullptr;  // needed once a quote is doubled
  std::size_t part = first;
  while (true) {
    const std::size_t found = text_.find_first_of("\"\n", at_);
    if (found == std::string_view::npos) throw Error(start, "a quote that does not close");
    at_ = found + 1;
    if (text_[found] == '\n') {
      ++line_;
      line_start_ = at_;
      continue;
    }
    if (at_ < text_.size() && text_[at_] == '"') {
      if (joined == nullptr) joined = &unquoted_.emplace_back();
      joined->append(text_.substr(part, at_ - part));
      part = ++at_;
      continue;
    }
    if (joined == nullptr) return text_.substr(first, found - first);
    joined->append(text_.substr(part, found - part));
    return *joined;
  }
}

bool CsvReader::next(std::vector<CsvCell>& cells) {
  cells.clear();
  unquoted_.clear();
  if (at_ >= text_.size()) return false;
  first_line_ = line_;
  while (true) {
    CsvCell cell{{}, line_, static_cast<int>(at_ - line_start_) + 1};
    if (at_ < text_.size() && text_[at_] == '"') {
      cell.text = quoted();
      const bool ends = at_ >= text_.size() || text_[at_] == ',' || text_[at_] == '\n' ||
                        (text_[at_] == '\r' && (at_ + 1 >= text_.size() || text_[at_ + 1] == '\n'));
      if (!ends) throw Error(here(), "text behind the closing quote of a cell");
      if (at_ < text_.size() && text_[at_] == '\r') ++at_;
    } else {
      const std::size_t end = std::min(text_.find_first_of(",\n", at_), text_.size());
      cell.text = text_.substr(at_, end - at_);
      if ((end == text_.size() || text_[end] == '\n') && cell.text.ends_with('\r')) cell.text.remove_suffix(1);
      at_ = end;
    }
    cells.push_back(cell);
    if (at_ < text_.size() && text_[at_] == ',') {
      ++at_;
      continue;
    }
    if (at_ < text_.size()) {  // a line feed
      ++at_;
      ++line_;
      line_start_ = at_;
    }
    return true;
  }
}

std::string shown_cell(std::string_view text) {
  constexpr std::size_t kMostShown = 40;
  if (text.size() <= kMostShown) return std::string(text);
  std::size_t cut = kMostShown;
  while (cut > 0 && (static_cast<unsigned char>(text[cut]) & 0xC0u) == 0x80u) --cut;
  return std::string(text.substr(0, cut)) + "...";
}

}  // namespace moeplan::base
