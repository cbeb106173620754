#pragma once
#include <functional>
#include <span>
#include <vector>

namespace moeplan::calibrate {

// One unknown > 0; it is sought on a logarithmic scale between its bounds.
struct Unknown {
  double start = 1, low = 0, high = 0;
  bool stated = false;  // the start is what a profile says, not a guess; for those who weigh it
};

struct Solution {
  std::vector<double> values;
  double loss = 0;  // mean of the robust loss of the residuals
};

// Values that make residuals(values) small: Levenberg-Marquardt on logarithms of the unknowns, with weights
// 1 / sqrt(1 + (r / scale)^2) renewed in each step (soft L1: a residual counts by its square while small against
// `scale`, by its size beyond, so that a few kernels that do what no formula says do not pull the fit). The result
// depends on nothing but the arguments. `residuals` fills one number a measurement, all finite.
using Residuals = std::function<void(std::span<const double> values, std::span<double> residuals)>;
Solution minimize(const std::vector<Unknown>& unknowns, std::size_t measurements, double scale,
                  const Residuals& residuals);

}  // namespace moeplan::calibrate
