#include "policy/select_key.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <vector>

#include "base/check.h"
#include "base/random.h"

using namespace moeplan;
using moeplan::policy::select_key;

TEST_CASE("the rank-th largest key is that of a sorted list, at every rank") {
  const base::Random random(2);
  // Spread over all 64 bits; within a few values (many equal keys); close together with one far away.
  for (std::uint64_t kind = 0; kind < 3; ++kind) {
    for (const std::size_t size : std::vector<std::size_t>{1, 2, 511, 512, 513, 5000}) {
      std::vector<std::uint64_t> keys;
      for (std::size_t i = 0; i < size; ++i) {
        const std::uint64_t bits = random.bits(kind, i);
        keys.push_back(kind == 0 ? bits : kind == 1 ? bits % 7 : bits % 100000 + 12345678901234);
      }
      if (kind == 2) keys.front() = std::numeric_limits<std::uint64_t>::max();
      std::vector<std::uint64_t> sorted = keys;
      std::sort(sorted.begin(), sorted.end(), std::greater<>());
      for (std::size_t rank = 1; rank <= size; rank += 1 + size / 97)
        REQUIRE(select_key(keys, rank) == sorted[rank - 1]);
      REQUIRE(select_key(keys, size) == sorted.back());
    }
  }
}

TEST_CASE("a rank outside the list is refused") {
  const std::vector<std::uint64_t> keys = {3, 5};
  CHECK_THROWS_AS(select_key(keys, 0), base::InternalError);
  CHECK_THROWS_AS(select_key(keys, 3), base::InternalError);
}
