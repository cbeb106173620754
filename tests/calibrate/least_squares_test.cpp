#include "calibrate/least_squares.h"

#include <doctest/doctest.h>

#include <cmath>

namespace moeplan::calibrate {

TEST_CASE("a line through three points with two unknowns is found") {
  // y = a + b x with a = 3, b = 0.5, on a logarithmic scale: residuals are log(model / measured).
  const std::vector<double> x = {1, 10, 100};
  const auto residuals = [&](std::span<const double> values, std::span<double> r) {
    for (std::size_t i = 0; i < x.size(); ++i) r[i] = std::log((values[0] + values[1] * x[i]) / (3 + 0.5 * x[i]));
  };
  const Solution solution = minimize({{1, 1e-3, 1e3}, {1, 1e-3, 1e3}}, 3, 0.05, residuals);
  CHECK(solution.values[0] == doctest::Approx(3).epsilon(1e-4));
  CHECK(solution.values[1] == doctest::Approx(0.5).epsilon(1e-4));
  CHECK(solution.loss < 1e-9);
}

TEST_CASE("one measurement in nine that is far off does not pull the fit") {
  // Eight say 2, one says 20. Squares of logarithms would give 2 x 10^(1/9) = 2.58.
  const auto residuals = [](std::span<const double> values, std::span<double> r) {
    for (std::size_t i = 0; i < r.size(); ++i) r[i] = std::log(values[0] / (i == 4 ? 20.0 : 2.0));
  };
  // Soft L1: 8 r / sqrt(1 + (r/s)^2) = s for the outlier, so r = s / sqrt(63) = 0.0063 with s = 0.05.
  CHECK(minimize({{1, 0.1, 100}}, 9, 0.05, residuals).values[0] ==
        doctest::Approx(2 * std::exp(0.05 / std::sqrt(63.0))).epsilon(1e-3));
}

TEST_CASE("unknowns stay between their bounds, and those that no measurement tells of stay where they start") {
  const auto residuals = [](std::span<const double> values, std::span<double> r) { r[0] = std::log(values[0] / 50); };
  const Solution solution = minimize({{1, 0.1, 10}, {7, 1, 100}}, 1, 0.05, residuals);
  CHECK(solution.values[0] == doctest::Approx(10));
  CHECK(solution.values[1] == doctest::Approx(7));
}

}  // namespace moeplan::calibrate
