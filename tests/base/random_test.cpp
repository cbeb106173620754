#include "base/random.h"

#include <doctest/doctest.h>

#include <cmath>
#include <set>

using namespace moeplan::base;

TEST_CASE("Philox4x32-10 gives the known answers of the Random123 distribution") {
  // kat_vectors of Random123: counter, key -> output.
  using Words = std::array<std::uint32_t, 4>;
  CHECK(philox4x32({0, 0, 0, 0}, {0, 0}) == Words{0x6627e8d5u, 0xe169c58du, 0xbc57ac4cu, 0x9b00dbd8u});
  const std::uint32_t ones = 0xffffffffu;
  CHECK(philox4x32({ones, ones, ones, ones}, {ones, ones}) ==
        Words{0x408f276du, 0x41c83b0eu, 0xa20bc7c6u, 0x6d5451fdu});
  CHECK(philox4x32({0x243f6a88u, 0x85a308d3u, 0x13198a2eu, 0x03707344u}, {0xa4093822u, 0x299f31d0u}) ==
        Words{0xd16cfe09u, 0x94fdccebu, 0x5001e420u, 0x24126ea1u});
}

TEST_CASE("bits are the first two words of the block, low word first") {
  CHECK(Random(0).bits(0, 0) == 0xe169c58d6627e8d5u);
  CHECK(Random(~std::uint64_t{0}).bits(~std::uint64_t{0}, ~std::uint64_t{0}) == 0x41c83b0e408f276du);
}

TEST_CASE("seed, stream and index each change the value, in their upper halves too") {
  const std::uint64_t high = std::uint64_t{1} << 32;
  std::set<std::uint64_t> values;
  for (const std::uint64_t step : {std::uint64_t{1}, high}) {
    values.insert(Random(step).bits(0, 0));
    values.insert(Random(0).bits(step, 0));
    values.insert(Random(0).bits(0, step));
  }
  values.insert(Random(0).bits(0, 0));
  CHECK(values.size() == 7);
}

TEST_CASE("uniform values lie inside (0, 1), with mean 1/2 and variance 1/12") {
  const Random random(7);
  const int n = 100'000;
  double sum = 0.0;
  double squares = 0.0;
  for (int i = 0; i < n; ++i) {
    const double value = random.uniform(3, static_cast<std::uint64_t>(i));
    REQUIRE(value > 0.0);
    REQUIRE(value < 1.0);
    sum += value;
    squares += value * value;
  }
  // Standard error of the mean: sqrt(1/12/n) = 0.0009; of the mean square (1/3): sqrt((1/5-1/9)/n) = 0.0009. 5 of each.
  CHECK(std::fabs(sum / n - 0.5) < 0.0046);
  CHECK(std::fabs(squares / n - 1.0 / 3.0) < 0.0047);
}

TEST_CASE("normal values are those of Box-Muller with the library's logarithm and cosine") {
  // Both uniforms come from one block: words 0, 1 and words 2, 3; 52 bits and a half each.
  const auto unit = [](std::uint32_t low, std::uint32_t high) {
    const std::uint64_t bits = (std::uint64_t{high} << 32) | low;
    return (static_cast<double>(bits >> 12) + 0.5) * std::ldexp(1.0, -52);
  };
  const double two_pi = 2.0 * std::acos(-1.0);
  for (std::uint32_t i = 0; i < 20'000; ++i) {
    const auto words = philox4x32({i, 0, 5, 0}, {11, 0});
    const double expected =
        std::sqrt(-2.0 * std::log(unit(words[0], words[1]))) * std::cos(two_pi * unit(words[2], words[3]));
    REQUIRE(std::fabs(Random(11).normal(5, i) - expected) < 1e-13);
  }
}

TEST_CASE("normal values have mean 0, variance 1, skewness 0 and kurtosis 3") {
  const Random random(42);
  const int n = 100'000;
  double moments[4] = {0.0, 0.0, 0.0, 0.0};
  for (int i = 0; i < n; ++i) {
    const double value = random.normal(1, static_cast<std::uint64_t>(i));
    double power = 1.0;
    for (double& moment : moments) moment += (power *= value) / n;
  }
  // Variances of x, x^2, x^3, x^4 under N(0, 1): 1, 2, 15, 96; five standard errors each.
  CHECK(std::fabs(moments[0]) < 5 * std::sqrt(1.0 / n));
  CHECK(std::fabs(moments[1] - 1.0) < 5 * std::sqrt(2.0 / n));
  CHECK(std::fabs(moments[2]) < 5 * std::sqrt(15.0 / n));
  CHECK(std::fabs(moments[3] - 3.0) < 5 * std::sqrt(96.0 / n));
}
