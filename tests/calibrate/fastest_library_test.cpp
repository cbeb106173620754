#include <doctest/doctest.h>

#include "calibrate/fit.h"
#include "measurements/read_table.h"

namespace moeplan::calibrate {
namespace {

using measurements::Measurement;

std::string row(const char* library, const char* rows, int time, bool of_device = true) {
  return std::string("{") + (of_device ? R"("schema":"moeplan.device/1","record":"measurement",)" : "") +
         R"("gpu":"H200","op":"grouped_gemm_fwd","n":64,"k":64,"group_rows":)" + rows + R"(,"library":")" + library +
         R"(","time_us":)" + std::to_string(time) + "}\n";
}

std::vector<std::string> kept(const std::string& text, std::size_t notes_expected) {
  const measurements::MeasurementTable table = measurements::parse_measurements(text, "t.jsonl");
  std::vector<const Measurement*> rows;
  for (const Measurement& one : table.rows) rows.push_back(&one);
  std::vector<std::string> notes, libraries;
  for (const Measurement* one : of_fastest_libraries(rows, notes)) libraries.push_back(one->library);
  CHECK(notes.size() == notes_expected);
  return libraries;
}

}  // namespace

TEST_CASE("of several libraries of a run the one that is fastest on most shapes counts") {
  const std::string first = row("a", "[8,8]", 10) + row("b", "[8,8]", 9);
  CHECK(kept(first, 1) == std::vector<std::string>{"b"});
  // One shape each: of equals the first by name. Rows that differ in one group are another shape.
  CHECK(kept(first + row("a", "[8,9]", 10) + row("b", "[8,9]", 11), 1) == std::vector<std::string>{"a", "a"});
  CHECK(kept(first + row("b", "[8,9]", 10) + row("a", "[8,9]", 11), 1) == std::vector<std::string>{"b", "b"});
}

TEST_CASE("shapes that one library alone measured are no win of it") {
  // a wins the one shape that both have; b has two more to itself.
  const std::string both = row("a", "[8,8]", 9) + row("b", "[8,8]", 10);
  CHECK(kept(both + row("b", "[8,9]", 1) + row("b", "[9,9]", 1), 1) == std::vector<std::string>{"a"});
  // A third library that misses the shapes of two others leaves one that all have: c wins it.
  const std::string three = both + row("c", "[8,8]", 8) + row("a", "[8,9]", 1) + row("b", "[8,9]", 2);
  CHECK(kept(three, 1) == std::vector<std::string>{"c"});
  // No shape in common: the one with the most shapes.
  CHECK(kept(row("a", "[8,8]", 9) + row("b", "[8,9]", 10) + row("b", "[9,9]", 10), 1) ==
        std::vector<std::string>{"b", "b"});
}

TEST_CASE("one library, and tables that people made, stay as they are") {
  CHECK(kept(row("a", "[8,8]", 10) + row("a", "[8,9]", 9), 0).size() == 2);
  CHECK(kept(row("a", "[8,8]", 10, false) + row("b", "[8,8]", 9, false), 0).size() == 2);
}

}  // namespace moeplan::calibrate
