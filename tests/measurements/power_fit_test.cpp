#include "measurements/power_fit.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

namespace moeplan::measurements {
namespace {

std::vector<SizedTime> law(double latency_s, double bandwidth, double exponent, int points) {
  std::vector<SizedTime> result;
  for (int i = 0; i < points; ++i) {
    const double bytes = 1024.0 * std::pow(2.0, i);
    result.push_back(
        {bytes, std::pow(std::pow(latency_s, exponent) + std::pow(bytes / bandwidth, exponent), 1 / exponent)});
  }
  return result;
}

}  // namespace

TEST_CASE("points of the law give its parameters back, and no error on the points kept out") {
  const PowerFit fit = fit_power(law(16e-6, 500e9, 0.6, 21));
  CHECK(fit.latency_s == doctest::Approx(16e-6).epsilon(0.01));
  CHECK(fit.bandwidth == doctest::Approx(500e9).epsilon(0.01));
  CHECK(fit.exponent == doctest::Approx(0.6).epsilon(0.01));
  CHECK(fit.fitted == 11);  // numbers 0, 2, ..., 20
  CHECK(fit.kept_out == 10);
  CHECK(fit.worst_error < 0.01);
}

TEST_CASE("what the fit did not see does not move it, and shows in the error") {
  std::vector<SizedTime> points = law(16e-6, 500e9, 0.6, 20);
  for (std::size_t i = 1; i < points.size(); i += 2) points[i].time_s *= 1.25;  // the points between
  const PowerFit fit = fit_power(points);
  CHECK(fit.latency_s == doctest::Approx(16e-6).epsilon(0.02));
  // predicted / measured = 1 / 1.25 = 0.8
  CHECK(fit.median_error == doctest::Approx(0.2).epsilon(0.03));
}

TEST_CASE("one odd point of the fit hardly moves it: errors count once, not squared") {
  std::vector<SizedTime> points = law(16e-6, 500e9, 0.6, 21);
  points[10].time_s *= 10;
  CHECK(fit_power(points).median_error < 0.02);
}

}  // namespace moeplan::measurements
