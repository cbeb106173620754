#include "base/checked.h"

#include <doctest/doctest.h>

#include <limits>

using namespace moeplan::base;

namespace {
constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();
constexpr std::int64_t kMin = std::numeric_limits<std::int64_t>::min();
}  // namespace

TEST_CASE("addition gives the sum up to the last representable value and nothing beyond") {
  CHECK(checked_add(kMax - 1, 1) == kMax);
  CHECK_FALSE(checked_add(kMax, 1).has_value());
  CHECK(checked_add(kMin + 1, -1) == kMin);
  CHECK_FALSE(checked_add(kMin, -1).has_value());
}

TEST_CASE("multiplication gives the product up to the last representable value and nothing beyond") {
  // 2^31 * 2^31 = 2^62 fits, 2^32 * 2^31 = 2^63 is one more than the maximum; -2^63 is the minimum.
  const std::int64_t two31 = std::int64_t{1} << 31;
  CHECK(checked_multiply(two31, two31) == std::int64_t{1} << 62);
  CHECK_FALSE(checked_multiply(two31 * 2, two31).has_value());
  CHECK(checked_multiply(two31 * 2, -two31) == kMin);
  CHECK_FALSE(checked_multiply(kMin, -1).has_value());
  CHECK(checked_multiply(kMax, 0) == 0);
}

TEST_CASE("rounding up keeps multiples and lifts everything else to the next one") {
  CHECK(round_up(0, 512) == 0);
  CHECK(round_up(1, 512) == 512);
  CHECK(round_up(512, 512) == 512);
  CHECK(round_up(513, 512) == 1024);
}

TEST_CASE("division rounds up only when there is a remainder") {
  CHECK(ceil_div(0, 8) == 0);
  CHECK(ceil_div(8, 8) == 1);
  CHECK(ceil_div(9, 8) == 2);
  CHECK(ceil_div(7, 1) == 7);
}
