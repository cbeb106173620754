#include "layer/count_lines.h"

#include <doctest/doctest.h>

namespace moeplan::layer {
namespace {
std::string message(const std::string& text, int experts = 3) {
  try {
    parse_count_lines(text, "a.csv", experts);
  } catch (const CountsError& error) {
    return error.what();
  }
  return {};
}
}  // namespace

TEST_CASE("lines of counts are read with any separator, comments and empty lines left out") {
  const auto lines = parse_count_lines("# layer 0\n1,2,3\n\n 4 5\t6 \r\n7;8;9", "a.csv", 3);
  REQUIRE(lines.size() == 3);
  CHECK(lines[0].line == 2);
  CHECK(lines[0].weights == std::vector<double>{1, 2, 3});
  CHECK(lines[1].weights == std::vector<double>{4, 5, 6});
  CHECK(lines[2].line == 5);
  CHECK(lines[2].key.empty());
}

TEST_CASE("columns in front of e0 name the line") {
  const auto lines = parse_count_lines("step,layer,e0,e1\n3,7,10,20\n", "a.csv", 2);
  REQUIRE(lines.size() == 1);
  CHECK(lines[0].key == "step 3, layer 7");
  CHECK(lines[0].weights == std::vector<double>{10, 20});
}

TEST_CASE("what is no vector of counts is refused with its line") {
  CHECK(message("") == "a.csv:1: no counts");
  CHECK(message("step,layer\n1,2\n") == "a.csv:1: expected counts or a header with the column e0");
  CHECK(message("1,2,3\n1,2\n") == "a.csv:2: expected 3 values, got 2");
  CHECK(message("1,2,x\n") == "a.csv:1: expected a count >= 0, got 'x'");
  CHECK(message("1,2,-1\n") == "a.csv:1: expected a count >= 0, got '-1'");
  CHECK(message("1,2,nan\n") == "a.csv:1: expected a count >= 0, got 'nan'");
  CHECK(message("0 0 0\n") == "a.csv:1: all counts are 0");
  CHECK(message("0 0 1\n").empty());
}

}  // namespace moeplan::layer
