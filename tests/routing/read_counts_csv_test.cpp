#include <doctest/doctest.h>

#include "routing/formats.h"
#include "support.h"

using namespace moeplan::routing;
using namespace moeplan::routing::test;

namespace {

std::string csv_fault(const std::string& text) {
  return error_of([&] { parse_counts_csv(text, "c.csv"); });
}
// The fault of one row under a header of two experts.
std::string fault_of_row(const std::string& row) { return csv_fault("step,layer,e0,e1\n0,1,3,1\n" + row + "\n"); }

}  // namespace

TEST_CASE("messages cut long cells between characters") {
  // 39 letters, then one of two bytes: the 40th byte is its first.
  const std::string cell = std::string(39, 'b') + "\xC3\xA9y";
  const std::string text = error_of([&] { parse_counts_csv("step,layer,e0\n0,1," + cell + "\n", "c.csv"); });
  CHECK(contains(text, "got '" + std::string(39, 'b') + "...'"));
}

TEST_CASE("rows are read with their keys, counts and lines") {
  const CountTrace trace =
      parse_counts_csv("step,layer,microbatch,source,e0,e1,e2\n5,3,0,2,7,0,1\n5,3,1,2,4,4,0\n", "c.csv");
  CHECK(trace.name == "c.csv");
  CHECK(trace.experts == 3);
  REQUIRE(trace.rows.size() == 2);
  CHECK(trace.rows[1].step == 5);
  CHECK(trace.rows[1].layer == 3);
  CHECK(trace.rows[1].microbatch == 1);
  CHECK(trace.rows[1].source == 2);
  CHECK(trace.rows[1].line == 3);
  CHECK(trace.row_counts(1) == std::vector<std::int64_t>{4, 4, 0});
}

TEST_CASE("absent keys mean all, key columns stand in any order, and spreadsheet files are read") {
  const CountTrace trace = parse_counts_csv("\xEF\xBB\xBFlayer,step,e0\r\n3,5,7\r\n4,5,7", "c.csv");
  REQUIRE(trace.rows.size() == 2);
  CHECK(trace.rows[0].step == 5);
  CHECK(trace.rows[0].layer == 3);
  CHECK(trace.rows[0].microbatch == -1);
  CHECK(trace.rows[0].source == -1);
}

TEST_CASE("counts that are no whole number >= 0 are refused with line and column") {
  CHECK(fault_of_row("0,2,3,1") == "no error");
  CHECK(fault_of_row("0,2,-3,1") == "c.csv:3:5: a count: expected a whole number >= 0, got '-3'");
  CHECK(fault_of_row("0,2,3,nan") == "c.csv:3:7: a count: expected a whole number >= 0, got 'nan'");
  CHECK(fault_of_row("0,2,3,0.5") == "c.csv:3:7: a count: expected a whole number >= 0, got '0.5'");
  CHECK(fault_of_row("0,2,3,") == "c.csv:3:7: a count: expected a whole number >= 0, got ''");
  CHECK(fault_of_row("0,2,3, 1") == "c.csv:3:7: a count: expected a whole number >= 0, got ' 1'");
  CHECK(fault_of_row("-1,2,3,1") == "c.csv:3:1: step: expected a whole number >= 0, got '-1'");
  CHECK(fault_of_row("0,x,3,1") == "c.csv:3:3: layer: expected a whole number >= 0, got 'x'");
}

TEST_CASE("huge numbers are refused, alone and as a sum") {
  CHECK(fault_of_row("0,2,1000000000000000,0") == "no error");
  CHECK(fault_of_row("0,2,1000000000000001,0") == "c.csv:3:5: a count: expected at most 10^15, got '1000000000000001'");
  CHECK(fault_of_row("0,2,99999999999999999999999,0") ==
        "c.csv:3:5: a count: expected at most 10^15, got '99999999999999999999999'");
  CHECK(fault_of_row("0,2,-99999999999999999999999,0") ==
        "c.csv:3:5: a count: expected a whole number >= 0, got '-99999999999999999999999'");
  CHECK(fault_of_row("0,2,1000000000000000,1") == "c.csv:3:22: the counts of the row sum to more than 10^15");
}

TEST_CASE("rows of another width, empty lines, rows of zeros and files without rows are refused") {
  CHECK(fault_of_row("0,2,3") == "c.csv:3: 3 cells, but the header has 4");
  CHECK(fault_of_row("0,2,3,1,0") == "c.csv:3: 5 cells, but the header has 4");
  CHECK(fault_of_row("") == "c.csv:3: an empty line");
  CHECK(fault_of_row("0,2,0,0") == "c.csv:3: all counts of the row are 0");
  CHECK(csv_fault("step,layer,e0\n") == "c.csv:1: no rows after the header");
  CHECK(csv_fault("step,layer,e0") == "c.csv:1: no rows after the header");
  CHECK(csv_fault("") == "c.csv: the file is empty");
}

TEST_CASE("headers with unknown, missing or doubled columns are refused") {
  CHECK(csv_fault("step,layr,e0\n0,1,1\n") ==
        "c.csv:1: column 'layer' is missing\nc.csv:1:6: unknown column 'layr'\n  hint: did you mean 'layer'?");
  CHECK(contains(csv_fault("step,layer,temperature,e0\n"), "c.csv:1:12: unknown column 'temperature'"));
  CHECK(csv_fault("layer,e0\n1,1\n") == "c.csv:1: column 'step' is missing");
  CHECK(csv_fault("step,layer\n1,1\n") == "c.csv:1: the columns of counts e0, e1, ... are missing");
  CHECK(csv_fault("step,layer,step,e0\n1,1,1,1\n") == "c.csv:1:12: column 'step' stands twice");
  CHECK(csv_fault("step,layer,e0,e2\n1,1,1,1\n") == "c.csv:1:15: expected column 'e1', got 'e2'");
  CHECK(csv_fault("step,layer,e0,source\n1,1,1,1\n") == "c.csv:1:15: expected column 'e1', got 'source'");
  CHECK(contains(csv_fault("step,layer,e1,e0\n1,1,1,1\n"), "c.csv:1:12: unknown column 'e1'"));
}

TEST_CASE("two rows for one place are refused with both lines") {
  CHECK(csv_fault("step,layer,e0\n0,1,1\n0,2,1\n0,1,5\n") ==
        "c.csv:4: a second row for step 0, layer 1\n  see also c.csv:2");
  CHECK(csv_fault("step,layer,source,e0\n0,1,0,1\n0,1,1,1\n0,1,1,1\n") ==
        "c.csv:4: a second row for step 0, layer 1, source 1\n  see also c.csv:3");
}

TEST_CASE("steps that lack a layer, and layers that lack a microbatch or source, are refused") {
  CHECK(csv_fault("step,layer,e0\n0,1,1\n0,2,1\n1,1,1\n") ==
        "c.csv:4: no row for step 1, layer 2, though others of the file have one");
  CHECK(csv_fault("step,layer,microbatch,source,e0\n0,1,0,0,1\n0,1,1,0,1\n0,2,0,0,1\n") ==
        "c.csv:2: no row for step 0, layer 2, microbatch 1, source 0, though others of the file have one");
  // Steps may differ in how many microbatches they have.
  CHECK(csv_fault("step,layer,microbatch,e0\n0,1,0,1\n1,1,0,1\n1,1,1,1\n") == "no error");
}

TEST_CASE("a scattered file does not cost more than its faults") {
  std::string text = "step,layer,microbatch,source,e0\n";
  for (int i = 0; i < 2000; ++i) {
    const std::string number = std::to_string(i);
    text += "0," + number + "," + number + "," + number + ",1\n";  // a full grid would have 8 * 10^9 rows
  }
  try {
    parse_counts_csv(text, "c.csv");
    FAIL("no error");
  } catch (const moeplan::base::Error& error) {
    CHECK(error.faults().size() == 20);
  }
}

TEST_CASE("faults of several rows are told together") {
  const std::string text = csv_fault("step,layer,e0\n0,1,x\n0,2\n0,3,0\n");
  CHECK(contains(text, "c.csv:2:5:"));
  CHECK(contains(text, "c.csv:3: 2 cells"));
  CHECK(contains(text, "c.csv:4: all counts"));
}
