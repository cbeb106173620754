#include "measurements/power_fit.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "base/check.h"

namespace moeplan::measurements {
namespace {

constexpr double kMostOverReached = 1.25;  // fitted bandwidth over the highest that the sweep reached

struct Logs {
  double size = 0, time = 0;
};

// Parameters as the search moves them: logarithms of latency, bandwidth and exponent.
using Point = std::array<double, 3>;

double predicted_log(const Point& at, double log_size) {
  const double p = std::exp(at[2]);
  const double transfer = log_size - at[1];
  const double high = std::max(at[0], transfer), low = std::min(at[0], transfer);
  return high + std::log1p(std::exp(p * (low - high))) / p;
}

double loss(const Point& at, std::span<const Logs> logs) {
  double sum = 0;
  for (const Logs& log : logs) sum += std::fabs(predicted_log(at, log.size) - log.time);
  return sum / static_cast<double>(logs.size());
}

// Moves along each axis and each pair of axes by a step that halves when nothing helps.
double search(Point& at, std::span<const Logs> logs, double most_rate) {
  at[1] = std::min(at[1], most_rate);
  double best = loss(at, logs);
  for (double step = 0.4; step > 1e-4; step /= 2) {
    for (bool better = true; better;) {
      better = false;
      for (int move = 1; move < 27; ++move) {  // three digits of base 3: none, up, down on each axis
        Point next = at;
        for (int axis = 0, rest = move; axis < 3; ++axis, rest /= 3)
          next[static_cast<std::size_t>(axis)] += rest % 3 == 0 ? 0 : rest % 3 == 1 ? step : -step;
        next[1] = std::min(next[1], most_rate);
        next[2] = std::clamp(next[2], std::log(0.2), std::log(8.0));
        const double value = loss(next, logs);
        if (value >= best - 1e-12) continue;
        best = value;
        at = next;
        better = true;
      }
    }
  }
  return best;
}

double median(std::vector<double> values) {
  if (values.empty()) return 0;
  std::sort(values.begin(), values.end());
  const std::size_t middle = values.size() / 2;
  return values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
}

}  // namespace

PowerFit fit_power(std::span<const SizedTime> points) {
  MOEPLAN_CHECK(points.size() >= kLeastPoints, "a fit of three parameters needs points on both sides");
  std::vector<Logs> fitted, kept;
  for (std::size_t i = 0; i < points.size(); ++i) {
    MOEPLAN_CHECK(points[i].wire_bytes > 0 && points[i].time_s > 0, "logarithms of sizes and times");
    (i % 2 == 0 ? fitted : kept).push_back({std::log(points[i].wire_bytes), std::log(points[i].time_s)});
  }
  // A sweep that ends early would let the rate run away; no link is much quicker than what was reached.
  double most_rate = fitted.front().size - fitted.front().time;
  for (const Logs& log : fitted) most_rate = std::max(most_rate, log.size - log.time);
  most_rate += std::log(kMostOverReached);
  Point best{};
  double least = -1;
  for (const double exponent : {0.5, 0.8, 1.5, 3.0}) {
    Point at{fitted.front().time, fitted.back().size - fitted.back().time, std::log(exponent)};
    const double value = search(at, fitted, most_rate);
    if (least >= 0 && value >= least) continue;
    least = value;
    best = at;
  }
  PowerFit fit;
  fit.latency_s = std::exp(best[0]);
  fit.bandwidth = std::exp(best[1]);
  fit.exponent = std::exp(best[2]);
  fit.fitted = fitted.size();
  fit.kept_out = kept.size();
  const auto errors = [&](const std::vector<Logs>& logs) {
    std::vector<double> values;
    for (const Logs& log : logs) values.push_back(std::fabs(std::expm1(predicted_log(best, log.size) - log.time)));
    return values;
  };
  const std::vector<double> outside = errors(kept);
  fit.median_error = median(outside);
  fit.worst_error = *std::max_element(outside.begin(), outside.end());
  fit.fitted_error = median(errors(fitted));
  return fit;
}

}  // namespace moeplan::measurements
