#include "routing/statistics.h"

#include <doctest/doctest.h>

#include <cmath>
#include <fstream>
#include <sstream>

#include "routing/trace.h"
#include "support.h"

using namespace moeplan::routing;

TEST_CASE("statistics of four experts agree with the hand calculation") {
  const std::vector<std::int64_t> counts = {1, 2, 3, 10};  // sum 16, mean 4
  CHECK(max_over_mean(counts) == doctest::Approx(10.0 / 4.0));
  // differences -3 -2 -1 6: squares 9 + 4 + 1 + 36 = 50; sqrt(50 / 4) / 4
  CHECK(coefficient_of_variation(counts) == doctest::Approx(std::sqrt(12.5) / 4.0));
  // 2 (1*1 + 2*2 + 3*3 + 4*10) / (4 * 16) - 5/4 = 108/64 - 80/64
  CHECK(gini(counts) == doctest::Approx(28.0 / 64.0));
  // blocks 1+2 and 3+10 of mean 8
  CHECK(rank_max_over_mean(counts, 2) == doctest::Approx(13.0 / 8.0));
  CHECK(rank_max_over_mean(counts, 1) == doctest::Approx(1.0));
}

TEST_CASE("the order of experts matters for ranks only") {
  const std::vector<std::int64_t> counts = {10, 1, 3, 2};
  CHECK(gini(counts) == doctest::Approx(28.0 / 64.0));
  CHECK(coefficient_of_variation(counts) == doctest::Approx(std::sqrt(12.5) / 4.0));
  CHECK(rank_max_over_mean(counts, 2) == doctest::Approx(11.0 / 8.0));
}

TEST_CASE("equal experts are balanced and no tokens give zeros") {
  const std::vector<std::int64_t> equal(8, 5), none(8, 0);
  CHECK(max_over_mean(equal) == 1.0);
  CHECK(coefficient_of_variation(equal) == 0.0);
  CHECK(gini(equal) == doctest::Approx(0.0));
  CHECK(max_over_mean(none) == 0.0);
  CHECK(coefficient_of_variation(none) == 0.0);
  CHECK(gini(none) == 0.0);
}

TEST_CASE("the legal-text trace has the reference statistics in every layer, to four decimals") {
  const Trace read = read_trace(test::kLawTrace);
  const TokenTrace& trace = std::get<TokenTrace>(read);
  std::ifstream reference(std::string(MOEPLAN_SOURCE_DIR) + "/tests/data/routing/esft_dsv2lite_law_statistics.csv");
  std::string line;
  REQUIRE(std::getline(reference, line));
  std::size_t layer = 0;
  for (; std::getline(reference, line); ++layer) {
    REQUIRE(layer < trace.experts_of.size());
    std::vector<std::int64_t> counts(64, 0);
    for (const std::uint16_t expert : trace.experts_of[layer]) ++counts[expert];
    const double computed[] = {static_cast<double>(trace.layer_ids[layer]),
                               max_over_mean(counts),
                               coefficient_of_variation(counts),
                               rank_max_over_mean(counts, 4),
                               rank_max_over_mean(counts, 8),
                               rank_max_over_mean(counts, 16),
                               rank_max_over_mean(counts, 32)};
    std::istringstream cells(line);
    for (const double value : computed) {
      std::string cell;
      REQUIRE(std::getline(cells, cell, ','));
      CHECK(std::abs(value - std::stod(cell)) <= 0.00005 + 1e-9);
    }
  }
  CHECK(layer == 26);
}
