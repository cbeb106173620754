#pragma once
#include <algorithm>
#include <cmath>

// Joining two times that overlap in part.
namespace moeplan::cost {

// (a^p + b^p)^(1/p) for a, b >= 0. p >= 1 lies between the maximum and the sum (compute against memory of one kernel);
// p < 1 lies above the sum (latency against bandwidth of a collective in the middle of its size range).
inline double power_join(double a, double b, double p) {
  const double high = std::max(a, b);
  if (high <= 0) return 0;
  const double low = std::min(a, b) / high;  // scaled first, so that no power underflows
  return low <= 0 ? high : high * std::pow(1 + std::pow(low, p), 1 / p);
}

}  // namespace moeplan::cost
