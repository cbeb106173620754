#include "report/table.h"

#include <doctest/doctest.h>

namespace moeplan::report {

TEST_CASE("columns are as wide as their widest cell, numbers to the right") {
  Table table({{"name", Align::left}, {"n"}});
  table.add({"a", "1"});
  table.add({"longer", "1000"});
  CHECK(table.text() ==
        "  name       n\n"
        "  a          1\n"
        "  longer  1000\n");
}

TEST_CASE("a row may be shorter than the head, and no line ends in spaces") {
  Table table({{"x", Align::left}, {"y", Align::left}});
  table.add({"only"});
  CHECK(table.text(0) == "x     y\nonly\n");
}

TEST_CASE("a least width holds before any wider cell comes") {
  Table table({{"x", Align::right, 4}});
  table.add({"7"});
  CHECK(table.text(0) == "   x\n   7\n");
}

TEST_CASE("widths count characters, not bytes") {
  CHECK(text_width("\xC2\xB5s") == 2);  // the micro sign is two bytes
  CHECK(padded("\xC2\xB5s", 4, Align::right) == "  \xC2\xB5s");
}

TEST_CASE("text is wrapped at words and indented under its head") {
  // "head " is 5 wide: "one two" fits 12 exactly, a width of 11 does not take it.
  CHECK(wrapped("head ", "one two", 12) == "head one two\n");
  CHECK(wrapped("head ", "one two", 11) == "head one\n     two\n");
}

TEST_CASE("a word wider than the line stays whole") { CHECK(wrapped("- ", "abcdefgh", 4) == "- abcdefgh\n"); }

}  // namespace moeplan::report
