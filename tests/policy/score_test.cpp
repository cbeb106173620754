#include "policy/score.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>

using namespace moeplan::policy;

TEST_CASE("the portable exponential is that of the library to 1e-14") {
  for (int i = -8000; i <= 8000; ++i) {
    const double x = i * 0.01 + 0.003;
    const double expected = std::exp(std::clamp(x, -80.0, 80.0));
    REQUIRE(std::fabs(portable_exp(x) / expected - 1) < 1e-14);
  }
  CHECK(portable_exp(0) == 1.0);
  CHECK(portable_exp(81) == portable_exp(80));
  CHECK(portable_exp(-1e9) == portable_exp(-80));
}

TEST_CASE("the norm of a token is a function of seed, step, layer, replica and token") {
  GroupContext context;
  std::set<double> seen;
  const auto add = [&](std::uint64_t seed, std::int64_t replica, std::int64_t token) {
    seen.insert(TokenNorms(seed, 0.5, context)(replica, token));
  };
  add(1, 0, 0);
  add(1, 0, 0);
  CHECK(seen.size() == 1);
  add(2, 0, 0);
  add(1, 1, 0);
  add(1, 0, 1);
  context.iteration = 1;
  add(1, 0, 0);
  context.iteration = 0;
  context.microbatch = 1;
  add(1, 0, 0);
  context.microbatch = 0;
  context.moe_layer = 1;
  add(1, 0, 0);
  CHECK(seen.size() == 7);
  context.moe_layer = 0;
  context.group = 5;  // the group is a matter of layout
  add(1, 0, 0);
  CHECK(seen.size() == 7);
}

TEST_CASE("norms are log-normal with the sigma asked for") {
  const GroupContext context;
  const TokenNorms norms(7, 0.5, context);
  const int n = 20000;
  double sum = 0, squares = 0;
  for (int token = 0; token < n; ++token) {
    const double z = std::log(norms(3, token));
    sum += z;
    squares += z * z;
  }
  // Standard errors: of the mean 0.5 / sqrt(20000) = 0.0035, of the deviation 0.0025; four of each.
  CHECK(std::fabs(sum / n) < 0.0142);
  CHECK(std::fabs(std::sqrt(squares / n) - 0.5) < 0.01);
  CHECK(TokenNorms(7, 0, context)(3, 5) == 1.0);
}
