#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/bf16.h"

// How far results lie from what they should be. Plain C++17.
namespace moeplan::device {

// The larger of two errors, where one that is no number is the largest of all and stays so.
inline double worse(double a, double b) {
  if (std::isnan(a) || std::isnan(b)) return std::numeric_limits<double>::quiet_NaN();
  return a > b ? a : b;
}

// The largest difference over the largest size among the wanted values (where all of these are 0, the difference
// itself); NaN where a value is none.
template <class Element>
double difference(const std::vector<Element>& got, const Element* wanted) {
  double most = 0, scale = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double a = kernels::to_float(got[i]), b = kernels::to_float(wanted[i]);
    most = worse(most, std::abs(a - b));
    scale = std::max(scale, std::abs(b));
  }
  return scale > 0 ? most / scale : most;
}

}  // namespace moeplan::device
