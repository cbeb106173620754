#pragma once
#include <cstddef>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

// Comma-separated values as RFC 4180 writes them: cells in double quotes may hold commas, line feeds and doubled
// quotes. Lines end with LF or CR LF; a byte-order mark, which spreadsheets write, is skipped.
namespace moeplan::base {

struct CsvCell {
  std::string_view text;  // without its quotes
  int line = 0, column = 0;
};

class CsvReader {
 public:
  // `text` must outlive the reader; `file` is how messages call it.
  CsvReader(std::string_view text, std::string file);

  // The cells of the next line, one with an empty text for an empty line; false at the end. They are valid until the
  // next call. Throws Error for a quote that does not close and for text behind a closing quote.
  bool next(std::vector<CsvCell>& cells);

  int line() const { return first_line_; }  // where the cells of the last call start, counted from 1
  // True when nothing but the mark stands in the text.
  bool empty() const { return text_.empty(); }

 private:
  std::string_view quoted();
  Where here() const;

  std::string_view text_;
  std::string file_;
  std::size_t at_ = 0, line_start_ = 0;
  int line_ = 1, first_line_ = 0;
  std::deque<std::string> unquoted_;  // cells whose text is not a part of the file's
};

// A cell as messages show it: at most 40 bytes, cut between characters.
std::string shown_cell(std::string_view text);

}  // namespace moeplan::base
