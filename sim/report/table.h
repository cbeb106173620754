#pragma once
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

// Aligned text tables: columns two spaces apart, as wide as their widest cell, no rules. Widths count code points.
namespace moeplan::report {

enum class Align { left, right };

std::size_t text_width(std::string_view text);                              // code points of UTF-8 text
std::string padded(std::string_view text, std::size_t width, Align align);  // never cut

class Table {
 public:
  struct Column {
    std::string head;
    Align align = Align::right;
    std::size_t least_width = 0;  // for tables that are printed row by row
  };
  explicit Table(std::vector<Column> columns);
  // As many cells as there are columns, or fewer: the rest stays empty.
  void add(std::vector<std::string> cells);
  bool empty() const { return rows_.empty(); }
  // Head and rows, each line after `indent` spaces and without spaces at its end.
  std::string text(std::size_t indent = 2) const;

 private:
  std::string line(const std::vector<std::string>& cells, const std::vector<std::size_t>& widths,
                   std::size_t indent) const;
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

// Words of `text` in lines of at most `width` characters; the first starts with `head`, the others are indented as far.
std::string wrapped(std::string_view head, std::string_view text, std::size_t width = 110);

}  // namespace moeplan::report
