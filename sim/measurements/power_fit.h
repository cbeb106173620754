#pragma once
#include <cstddef>
#include <span>

// Fits of the three-parameter law of collectives (docs/models.md, Collectives).
namespace moeplan::measurements {

struct SizedTime {
  double wire_bytes = 0, time_s = 0;  // both > 0
};

// t = (latency^p + (x / bandwidth)^p)^(1/p), fitted to every second point from the smallest on; errors are of the
// points between, which the fit did not see.
struct PowerFit {
  double latency_s = 0, bandwidth = 0, exponent = 1;
  std::size_t fitted = 0, kept_out = 0;
  double median_error = 0, worst_error = 0;  // |predicted / measured - 1|
  double fitted_error = 0;                   // median, of the points of the fit
};

// The bandwidth is at most 1.25 times the highest that a point of the fit reached. Least mean of |log(predicted / measured)|, by a deterministic pattern search. `points` ascend by wire_bytes; at least
// 6 of them.
PowerFit fit_power(std::span<const SizedTime> points);
inline constexpr std::size_t kLeastPoints = 6;

}  // namespace moeplan::measurements
