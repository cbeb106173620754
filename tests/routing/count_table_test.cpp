#include "routing/count_table.h"

#include <doctest/doctest.h>

#include <vector>

using moeplan::routing::CountTable;

TEST_CASE("entries take two bytes up to 65,535, four up to 2^32 - 1, eight beyond and below 0") {
  struct Case {
    std::int64_t largest;
    std::size_t bytes;  // of three entries
  };
  for (const Case& c :
       {Case{65'535, 6}, Case{65'536, 12}, Case{4'294'967'295, 12}, Case{4'294'967'296, 24}, Case{-1, 24}}) {
    CAPTURE(c.largest);
    CountTable table = {1, 2};
    table.append(std::vector<std::int64_t>{c.largest});
    CHECK(table.size() == 3);
    CHECK(table.bytes() == c.bytes);
    CHECK(table.part(0, 3) == std::vector<std::int64_t>{1, 2, c.largest});
    CHECK(table.part(1, 1) == std::vector<std::int64_t>{2});
    table.append(std::vector<std::int64_t>{7});  // narrow ones keep the width
    CHECK(table.part(2, 2) == std::vector<std::int64_t>{c.largest, 7});
    CHECK(table.bytes() == c.bytes / 3 * 4);
  }
}

TEST_CASE("from four bytes to eight, and nothing") {
  CountTable table;
  CHECK(table.size() == 0);
  CHECK(table.part(0, 0).empty());
  table.append(std::vector<std::int64_t>{70'000});
  table.append(std::vector<std::int64_t>{std::int64_t{1} << 40});
  CHECK(table.part(0, 2) == std::vector<std::int64_t>{70'000, std::int64_t{1} << 40});
  CHECK(table.bytes() == 16);
}
