#include "layer/layer_case.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <set>

namespace moeplan::layer {
namespace {
using Counts = std::vector<std::int64_t>;

LayerCase valid() {
  LayerCase c;
  c.shape = {10, 8, 16, 4, 2};
  c.rows = {5, 5, 5, 5};
  return c;
}
std::string first_fault(const LayerCase& c) {
  const auto faults = faults_of(c);
  return faults.empty() ? "" : faults[0];
}
}  // namespace

TEST_CASE("a case is refused with what was expected and found") {
  CHECK(faults_of(valid()).empty());
  LayerCase c = valid();
  c.shape.hidden = 12;
  CHECK(first_fault(c) == "hidden: expected a multiple of 8, got 12");
  c = valid();
  c.shape.ffn = 0;
  CHECK(first_fault(c) == "ffn: expected a multiple of 8, got 0");
  c = valid();
  c.shape.top_k = 5;
  CHECK(first_fault(c) == "top-k: expected 1 to the number of experts, got 5");
  c = valid();
  c.chunks = 3;
  CHECK(first_fault(c) == "chunks: expected a divisor of 10 tokens, got 3");
  c = valid();
  c.chunks = 2;
  c.backward = Backward::redispatch;
  CHECK(first_fault(c) == "chunks: 1 where pairs are selected, got 2");
  c = valid();
  c.retention = 0;
  CHECK(first_fault(c) == "retention: expected above 0 and up to 1, got 0.000000");
  c = valid();
  c.rows = {11, 9, 0, 0};
  CHECK(first_fault(c) == "row counts: expert 0: expected 0 to 10, one a token, got 11");
  c.rows = {10, 9, 0, 0};
  CHECK(first_fault(c) == "row counts: expected a sum of 20, tokens times top-k, got 19");
  c = valid();
  c.shape = {1 << 24, 8, 8, 128, 127};  // 127 * 2^24 pairs: fewer than 2^31
  CHECK(first_fault(c).substr(0, 10) == "row counts");
  c.shape.top_k = 128;
  CHECK(first_fault(c) == "top-k: expected at most 2147483647 pairs, tokens times top-k, got 2147483648");
  c = valid();
  c.rows = {10, 10};
  CHECK(first_fault(c) == "row counts: expected one of each of 4 experts, got 2");
  c.shape = {0, 1, 1, 0, 0};
  CHECK(faults_of(c).size() == 5);  // all at once: tokens, hidden, ffn, experts, top-k
}

TEST_CASE("every token gets different experts, and every expert its rows") {
  const LayerShape shape{100, 8, 8, 7, 3};
  for (const Counts& rows : {Counts{100, 100, 100, 0, 0, 0, 0}, Counts{0, 99, 1, 50, 50, 50, 50}, Counts(7, 300 / 7)}) {
    Counts counts = rows;
    counts[6] += 300 - std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
    const auto choices = choices_of(shape, counts, 9);
    Counts found(7, 0);
    for (std::size_t t = 0; t < 100; ++t) {
      std::set<std::int32_t> mine(choices.begin() + static_cast<std::ptrdiff_t>(3 * t),
                                  choices.begin() + static_cast<std::ptrdiff_t>(3 * t + 3));
      REQUIRE(mine.size() == 3);
      for (const std::int32_t e : mine) ++found[static_cast<std::size_t>(e)];
    }
    CHECK(found == counts);
  }
}

TEST_CASE("weights become counts with their proportions, none above the tokens") {
  const LayerShape shape{100, 8, 8, 4, 2};
  CHECK(scaled_rows({1, 1, 1, 1}, shape) == Counts{50, 50, 50, 50});
  // 200 * (0.5, 0.25, 0.125, 0.125): the first is at the limit just so.
  CHECK(scaled_rows({4, 2, 1, 1}, shape) == Counts{100, 50, 25, 25});
  // 200 * 0.7 = 140 is above 100; the others share 100 as 1 : 1 : 1. 33.3 each: the first of equal remainders gets one.
  CHECK(scaled_rows({7, 1, 1, 1}, shape) == Counts{100, 34, 33, 33});
  // The first takes 100, then the second would get 100 * 5/6 = 83.
  CHECK(scaled_rows({94, 5, 1, 0}, shape) == Counts{100, 83, 17, 0});
  // What the chosen two cannot take goes to experts of weight 0.
  CHECK(scaled_rows({1, 1, 0, 0}, LayerShape{100, 8, 8, 4, 3}) == Counts{100, 100, 50, 50});
  CHECK(scaled_rows({1}, LayerShape{7, 8, 8, 1, 1}) == Counts{7});
  // Zipf of exponent 1 over 4: 1, 1/2, 1/3, 1/4 of 2.0833: 96, 48, 32, 24 of 200.
  CHECK(scaled_rows(zipf_weights(4, 1), shape) == Counts{96, 48, 32, 24});
  CHECK(scaled_rows(zipf_weights(4, 0), shape) == Counts{50, 50, 50, 50});
}

TEST_CASE("retained rows are the share of each expert's, rounded up") {
  LayerCase c = valid();
  c.rows = {10, 9, 1, 0};
  for (const auto& [retention, expected] : {std::pair{1.0, Counts{10, 9, 1, 0}}, std::pair{0.5, Counts{5, 5, 1, 0}},
                                            std::pair{0.1, Counts{1, 1, 1, 0}}, std::pair{0.9, Counts{9, 9, 1, 0}}}) {
    c.retention = retention;
    CHECK(retained_rows(c) == expected);
  }
}

TEST_CASE("rows of chunks add up to those of the layer") {
  LayerCase c = valid();
  c.shape.tokens = 12;
  c.rows = {12, 6, 6, 0};
  const auto choices = choices_of(c.shape, c.rows, 1);
  for (const std::int64_t chunks : {1, 3, 12}) {
    c.chunks = chunks;
    const Counts rows = chunk_rows(c, choices);
    REQUIRE(rows.size() == static_cast<std::size_t>(4 * chunks));
    Counts sums(4, 0);
    for (std::int64_t i = 0; i < chunks; ++i) {
      std::int64_t of_chunk = 0;
      for (std::size_t e = 0; e < 4; ++e) {
        sums[e] += rows[static_cast<std::size_t>(i) * 4 + e];
        of_chunk += rows[static_cast<std::size_t>(i) * 4 + e];
      }
      CHECK(of_chunk == 24 / chunks);
    }
    CHECK(sums == c.rows);
  }
}

}  // namespace moeplan::layer
