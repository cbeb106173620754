#include "cost/roofline.h"

#include <doctest/doctest.h>

using doctest::Approx;
using moeplan::cost::power_join;

TEST_CASE("power_join by hand") {
  CHECK(power_join(3, 4, 2) == Approx(5));
  CHECK(power_join(3, 4, 1) == Approx(7));
  CHECK(power_join(4, 9, 0.5) == Approx(25));  // (2 + 3)^2
}

TEST_CASE("one part alone is returned as it is") {
  CHECK(power_join(0, 0, 2) == 0);
  CHECK(power_join(5, 0, 0.6) == 5);
  CHECK(power_join(0, 5, 3.8) == 5);
}

TEST_CASE("for exponents from 1 the join lies between maximum and sum, below 1 above the sum: it is symmetric") {
  for (const double a : {1e-9, 1e-6, 1e-3})
    for (const double b : {1e-9, 2e-6, 5e-3}) {
      CHECK(power_join(a, b, 3.8) >= std::max(a, b));
      CHECK(power_join(a, b, 3.8) <= a + b);
      CHECK(power_join(a, b, 0.6) > a + b);
      CHECK(power_join(a, b, 0.6) == power_join(b, a, 0.6));
    }
}
