#include "cost/bytes_matrix.h"

#include <doctest/doctest.h>

#include "support/holds.h"

namespace moeplan::cost {
namespace {

std::string faults_of(const std::string& text) {
  base::Faults faults;
  read_bytes_matrix(text, "m.csv", faults);
  try {
    faults.throw_if_any();
  } catch (const base::Error& error) {
    return error.what();
  }
  return {};
}

using moeplan::test::holds;

}  // namespace

TEST_CASE("lines of whole numbers make a matrix, blanks, CR LF and 1e6 are taken") {
  base::Faults faults;
  const BytesMatrix matrix = read_bytes_matrix("0, 5\r\n1e6,0\r\n\n", "m.csv", faults);
  CHECK(faults.empty());
  CHECK(matrix.ranks == 2);
  CHECK(matrix.bytes == std::vector<std::int64_t>{0, 5, 1000000, 0});
}

TEST_CASE("every cell that is no whole number of bytes is told at its place") {
  const std::string faults = faults_of("0,-1,abc\nnan,0,1.5\ninf,,1e99\n");
  CHECK(holds(faults, "m.csv:1:3: expected a whole number of bytes from 0 to 1e15, got '-1'"));
  CHECK(holds(faults, "m.csv:1:6"));
  CHECK(holds(faults, "m.csv:2:1"));
  CHECK(holds(faults, "got '1.5'"));
  CHECK(holds(faults, "m.csv:3:1"));
  CHECK(holds(faults, "m.csv:3:5"));
  CHECK(holds(faults, "got '1e99'"));
}

TEST_CASE("lines of other lengths, and more or fewer lines than columns, are faults") {
  CHECK(holds(faults_of("0,1\n1\n"), "m.csv:2: expected 2 cells as in the first line, got 1"));
  CHECK(holds(faults_of("0,1\n"), "expected as many lines as columns (2), got 1"));
  CHECK(holds(faults_of("0,1\n1,0\n0,0\n"), "expected as many lines as columns (2), got 3"));
  CHECK(holds(faults_of("\n"), "expected a line of bytes for each rank, got none"));
}

TEST_CASE("faults beyond the first hundred are not told one by one") {
  std::string text;
  for (int i = 0; i < 20; ++i) text += "x,x,x,x,x,x,x,x,x,x,x,x,x,x,x,x,x,x,x,x\n";
  base::Faults faults;
  read_bytes_matrix(text, "m.csv", faults);
  CHECK(faults.size() == 100);
}

}  // namespace moeplan::cost
