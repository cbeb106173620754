#include "report/table.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "base/units.h"

namespace moeplan::report {

std::size_t text_width(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

std::string padded(std::string_view text, std::size_t width, Align align) {
  const std::size_t own = text_width(text);
  const std::string space(width > own ? width - own : 0, ' ');
  return align == Align::left ? std::string(text) + space : space + std::string(text);
}

Table::Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

void Table::add(std::vector<std::string> cells) {
  MOEPLAN_CHECK(cells.size() <= columns_.size(), "a row has at most one cell a column");
  for (std::string& cell : cells) cell = base::printable(cell);
  cells.resize(columns_.size());
  rows_.push_back(std::move(cells));
}

std::string Table::line(const std::vector<std::string>& cells, const std::vector<std::size_t>& widths,
                        std::size_t indent) const {
  std::string text(indent, ' ');
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    if (c > 0) text += "  ";
    text += padded(cells[c], widths[c], columns_[c].align);
  }
  text.erase(text.find_last_not_of(' ') + 1);
  return text + "\n";
}

std::string Table::text(std::size_t indent) const {
  std::vector<std::size_t> widths;
  std::vector<std::string> heads;
  for (std::size_t c = 0; c < columns_.size(); ++c) {
    std::size_t width = std::max(columns_[c].least_width, text_width(columns_[c].head));
    for (const auto& row : rows_) width = std::max(width, text_width(row[c]));
    widths.push_back(width);
    heads.push_back(columns_[c].head);
  }
  std::string text = line(heads, widths, indent);
  for (const auto& row : rows_) text += line(row, widths, indent);
  return text;
}

std::string wrapped(std::string_view head, std::string_view text, std::size_t width) {
  const std::string indent(text_width(head), ' ');
  std::string result(head);
  std::size_t column = indent.size();
  bool first = true;
  while (true) {
    const std::size_t start = text.find_first_not_of(" \n");
    if (start == std::string_view::npos) break;
    text.remove_prefix(start);
    const std::string_view word = text.substr(0, text.find_first_of(" \n"));
    text.remove_prefix(word.size());
    const std::size_t own = text_width(word);
    if (!first && column + 1 + own > width) {
      result += "\n" + indent;
      column = indent.size();
      first = true;
    }
    if (!first) result += ' ';
    result += word;
    column += own + (first ? 0 : 1);
    first = false;
  }
  return result + "\n";
}

}  // namespace moeplan::report
