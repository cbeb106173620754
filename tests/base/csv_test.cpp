#include "base/csv.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace moeplan;
using base::CsvCell;
using base::CsvReader;

namespace {

std::vector<std::vector<std::string>> lines_of(const std::string& text) {
  CsvReader csv(text, "a.csv");
  std::vector<CsvCell> cells;
  std::vector<std::vector<std::string>> lines;
  while (csv.next(cells)) {
    std::vector<std::string>& line = lines.emplace_back();
    for (const CsvCell& cell : cells) line.emplace_back(cell.text);
  }
  return lines;
}

std::string error_of(const std::string& text) {
  try {
    lines_of(text);
  } catch (const base::Error& error) {
    return error.what();
  }
  return "";
}

using Lines = std::vector<std::vector<std::string>>;

}  // namespace

TEST_CASE("cells are split at commas, lines at LF or CR LF, with or without one at the end") {
  CHECK(lines_of("a,b\nc,d\n") == Lines{{"a", "b"}, {"c", "d"}});
  CHECK(lines_of("a,b\r\nc,d") == Lines{{"a", "b"}, {"c", "d"}});
  CHECK(lines_of("a,,b,\n") == Lines{{"a", "", "b", ""}});
  CHECK(lines_of("a,b,") == Lines{{"a", "b", ""}});
  CHECK(lines_of("\n\na\n") == Lines{{""}, {""}, {"a"}});
  CHECK(lines_of("").empty());
  CHECK(lines_of("\xEF\xBB\xBF"
                 "a\n") == Lines{{"a"}});
}

TEST_CASE("quoted cells hold commas, line feeds and doubled quotes") {
  CHECK(lines_of("\"a,b\",c\n") == Lines{{"a,b", "c"}});
  CHECK(lines_of("\"a\nb\",c\r\nd,e\n") == Lines{{"a\nb", "c"}, {"d", "e"}});
  CHECK(lines_of("\"a\"\"b\"\"\",\"\"\"\"\n") == Lines{{"a\"b\"", "\""}});
  CHECK(lines_of("\"\",\"\"") == Lines{{"", ""}});
  CHECK(lines_of("\"a\"\r\n\"b\"\r") == Lines{{"a"}, {"b"}});
  // A quote inside a cell that does not begin with one is a character like others.
  CHECK(lines_of("5\" disk,b\n") == Lines{{"5\" disk", "b"}});
}

TEST_CASE("places count lines and columns of the text, also behind a cell of several lines") {
  const std::string text = "a,b\n\"x\ny\",z\nlast,1\n";
  CsvReader csv(text, "a.csv");
  std::vector<CsvCell> cells;
  REQUIRE(csv.next(cells));
  CHECK(csv.line() == 1);
  CHECK(cells[1].column == 3);
  REQUIRE(csv.next(cells));
  CHECK(csv.line() == 2);
  CHECK(cells[0].line == 2);
  CHECK(cells[0].column == 1);
  CHECK(cells[1].line == 3);  // the cell starts in the second line of the quoted one: y",z
  CHECK(cells[1].column == 4);
  REQUIRE(csv.next(cells));
  CHECK(csv.line() == 4);
  CHECK_FALSE(csv.next(cells));
}

TEST_CASE("a quote that does not close, and text behind one that does, are named with their place") {
  CHECK(error_of("a,\"b\n") == "a.csv:1:3: a quote that does not close");
  CHECK(error_of("a\n\"b\"c,d\n") == "a.csv:2:4: text behind the closing quote of a cell");
  CHECK(error_of("\"a\"\rb\n") == "a.csv:1:4: text behind the closing quote of a cell");
}

TEST_CASE("a long cell is shown cut between characters") {
  CHECK(base::shown_cell("short") == "short");
  CHECK(base::shown_cell(std::string(40, 'a')) == std::string(40, 'a'));
  CHECK(base::shown_cell(std::string(41, 'a')) == std::string(40, 'a') + "...");
  // 39 bytes, then a character of two bytes: it does not fit into 40.
  CHECK(base::shown_cell(std::string(39, 'a') + "\xC3\xA4" + "b") == std::string(39, 'a') + "...");
}
