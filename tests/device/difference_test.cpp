#include "device/difference.h"

#include <doctest/doctest.h>

namespace moeplan::device {

TEST_CASE("a difference is the largest one over the largest size that was wanted") {
  const std::vector<float> wanted = {1, -4, 2};
  // 0.5, 0, 1 over 4.
  CHECK(difference(std::vector<float>{1.5F, -4, 3}, wanted.data()) == 0.25);
  CHECK(difference(wanted, wanted.data()) == 0);
  const std::vector<float> zeros = {0, 0};
  CHECK(difference(std::vector<float>{0, -0.5F}, zeros.data()) == 0.5);
}

TEST_CASE("a value that is no number is not forgotten, wherever it stands") {
  const float none = std::numeric_limits<float>::quiet_NaN();
  const std::vector<float> wanted = {1, 2, 3};
  for (const std::vector<float>& got : {std::vector<float>{none, 2, 3}, {1, none, 3}, {1, 2, none}})
    CHECK(std::isnan(difference(got, wanted.data())));
  CHECK(std::isnan(worse(worse(0, none), 1)));
  CHECK(std::isnan(worse(1, none)));
  CHECK(worse(1, 2) == 2);
  CHECK(worse(2, 1) == 2);
}

}  // namespace moeplan::device
