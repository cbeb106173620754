#include "routing/spread.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

#include "base/random.h"
#include "routing/spread_map.h"

using namespace moeplan::routing;

namespace {

std::int64_t brute_force(std::int64_t first, std::int64_t last, std::int64_t tokens, std::int64_t begin,
                         std::int64_t end) {
  std::int64_t count = 0;
  for (std::int64_t p = first; p < last; ++p) {
    const std::int64_t token = p * spread_stride(tokens) % tokens;
    count += begin <= token && token < end;
  }
  return count;
}

}  // namespace

TEST_CASE("the stride is coprime to the tokens, near the golden ratio, and its inverse undoes it") {
  CHECK(spread_stride(1) == 1);
  CHECK(spread_stride(2) == 1);
  CHECK(spread_stride(3) == 2);        // 1.85 -> 2
  CHECK(spread_stride(4096) == 2531);  // 2531.4
  for (std::int64_t tokens = 1; tokens <= 3000; ++tokens) {
    const std::int64_t stride = spread_stride(tokens);
    REQUIRE(std::gcd(stride, tokens) == 1);
    REQUIRE((spread_inverse(stride, tokens) * stride - 1) % tokens == 0);
    if (tokens > 100) REQUIRE(std::abs(static_cast<double>(stride) / static_cast<double>(tokens) - 0.618034) < 0.06);
  }
}

TEST_CASE("copies in a slice equal the count one by one, for every range and slice of up to 12 tokens") {
  for (std::int64_t tokens = 1; tokens <= 12; ++tokens) {
    for (std::int64_t first = 0; first <= 2 * tokens; ++first) {
      for (std::int64_t last = first; last <= 3 * tokens; ++last) {
        for (std::int64_t begin = 0; begin <= tokens; ++begin) {
          for (std::int64_t end = begin; end <= tokens; ++end) {
            REQUIRE(copies_in_slice(first, last, tokens, begin, end) == brute_force(first, last, tokens, begin, end));
          }
        }
      }
    }
  }
}

TEST_CASE("copies in a slice equal the count one by one on both sides of the border between 32 and 64 bits") {
  const moeplan::base::Random random(3);
  for (const std::int64_t tokens : {4096, 32767, 32768, 32769, 65537, 1000003}) {
    for (std::uint64_t draw = 0; draw < 4; ++draw) {
      const auto at = [&](std::uint64_t index, std::int64_t range) {
        return static_cast<std::int64_t>(random.uniform(static_cast<std::uint64_t>(tokens), draw * 4 + index) *
                                         static_cast<double>(range));
      };
      const std::int64_t first = at(0, tokens), last = first + at(1, tokens), begin = at(2, tokens);
      const std::int64_t end = begin + at(3, tokens - begin);
      CHECK(copies_in_slice(first, last, tokens, begin, end) == brute_force(first, last, tokens, begin, end));
    }
  }
}

TEST_CASE("the largest sizes do not overflow: all copies of 2^31 tokens at 64 experts a token") {
  const std::int64_t tokens = std::int64_t{1} << 31;
  CHECK(copies_in_slice(0, tokens * 64, tokens, 5, 1005) == 64 * 1000);
  // 64 rounds and one half of a round: what a half does not hold the other half does.
  const std::int64_t half = copies_in_slice(0, tokens / 2 + 1, tokens, 0, tokens / 2 - 1);
  CHECK(half + copies_in_slice(tokens / 2 + 1, tokens, tokens, 0, tokens / 2 - 1) == tokens / 2 - 1);
  CHECK(std::abs(static_cast<double>(half) / static_cast<double>(tokens) - 0.25) < 1e-6);
}

TEST_CASE("every token has k distinct experts, and slices add up to the counts, for all counts of a small step") {
  constexpr std::int64_t kTokens = 5, kExperts = 4, kTopK = 2;
  int steps = 0;
  for (std::int64_t a = 0; a <= kTokens; ++a) {
    for (std::int64_t b = 0; b <= kTokens; ++b) {
      for (std::int64_t c = 0; c <= kTokens; ++c) {
        const std::int64_t d = kTokens * kTopK - a - b - c;
        if (d < 0 || d > kTokens) continue;
        ++steps;
        const std::vector<std::int64_t> starts = {0, a, a + b, a + b + c, kTokens * kTopK};
        std::vector<std::int64_t> counts(kExperts, 0);
        for (std::int64_t token = 0; token < kTokens; ++token) {
          std::vector<std::uint16_t> experts(kTopK);
          experts_of_token(starts, kTokens, token, experts);
          REQUIRE(experts[0] < experts[1]);
          for (const std::uint16_t expert : experts) {
            ++counts[expert];
            // The token alone is a slice that holds one copy of each of its experts.
            REQUIRE(copies_in_slice(starts[expert], starts[expert + 1u], kTokens, token, token + 1) == 1);
          }
        }
        REQUIRE(counts == std::vector<std::int64_t>{a, b, c, d});
      }
    }
  }
  CHECK(steps == 146);  // (a, b, c, d) in 0..5 with sum 10: symmetric middle of (1 + x + ... + x^5)^4
}

TEST_CASE("a slice receives a nearly equal share of every expert") {
  // 1,000 of 4,096 tokens: an eighth of them should see an eighth of the copies, within 3 (the golden stride's
  // discrepancy).
  const std::int64_t tokens = 4096, share = 1000;
  for (std::int64_t start = 0; start + share <= tokens; start += 37) {
    for (std::int64_t part = 0; part < 8; ++part) {
      const std::int64_t got = copies_in_slice(start, start + share, tokens, part * 512, (part + 1) * 512);
      CHECK(std::abs(got - share / 8) <= 3);
    }
  }
}
