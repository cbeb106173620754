#include "calibrate/least_squares.h"

#include <Eigen/Dense>
#include <algorithm>
#include <cmath>

#include "base/check.h"

namespace moeplan::calibrate {
namespace {

using Eigen::MatrixXd;
using Eigen::VectorXd;

constexpr int kMostSteps = 80;
constexpr double kDifference = 1e-3;  // of a logarithm, to each side: tiles and maxima make steps of that size smooth

class Problem {
 public:
  Problem(const std::vector<Unknown>& unknowns, std::size_t measurements, double scale, const Residuals& residuals)
      : unknowns_(unknowns), count_(measurements), scale_(scale), residuals_(residuals) {}

  VectorXd start() const {
    VectorXd x(size());
    for (Eigen::Index i = 0; i < size(); ++i) x[i] = std::log(unknowns_[static_cast<std::size_t>(i)].start);
    return clamped(x);
  }

  VectorXd clamped(VectorXd x) const {
    for (Eigen::Index i = 0; i < size(); ++i) {
      const Unknown& unknown = unknowns_[static_cast<std::size_t>(i)];
      x[i] = std::clamp(x[i], std::log(unknown.low), std::log(unknown.high));
    }
    return x;
  }

  VectorXd residuals(const VectorXd& x) const {
    const std::vector<double> values = values_of(x);
    VectorXd r(static_cast<Eigen::Index>(count_));
    residuals_(values, {r.data(), count_});
    return r;
  }

  MatrixXd jacobian(const VectorXd& x) const {
    MatrixXd result(static_cast<Eigen::Index>(count_), size());
    for (Eigen::Index i = 0; i < size(); ++i) {
      VectorXd up = x, down = x;
      up[i] += kDifference;
      down[i] -= kDifference;
      result.col(i) = (residuals(up) - residuals(down)) / (2 * kDifference);
    }
    return result;
  }

  double loss(const VectorXd& r) const {
    double sum = 0;
    for (const double value : r) sum += scale_ * scale_ * (std::sqrt(1 + value * value / (scale_ * scale_)) - 1);
    return sum / static_cast<double>(count_);
  }

  VectorXd weights(const VectorXd& r) const { return (1 + (r / scale_).array().square()).sqrt().inverse().matrix(); }

  std::vector<double> values_of(const VectorXd& x) const {
    std::vector<double> values;
    for (const double log : x) values.push_back(std::exp(log));
    return values;
  }

 private:
  Eigen::Index size() const { return static_cast<Eigen::Index>(unknowns_.size()); }

  const std::vector<Unknown>& unknowns_;
  std::size_t count_;
  double scale_;
  const Residuals& residuals_;
};

}  // namespace

Solution minimize(const std::vector<Unknown>& unknowns, std::size_t measurements, double scale,
                  const Residuals& residuals) {
  MOEPLAN_CHECK(!unknowns.empty() && measurements > 0 && scale > 0, "something to fit, and to fit it to");
  const Problem problem(unknowns, measurements, scale, residuals);
  VectorXd x = problem.start();
  VectorXd r = problem.residuals(x);
  double loss = problem.loss(r);
  double damping = 1e-2;
  for (int step = 0; step < kMostSteps && damping < 1e8; ++step) {
    const MatrixXd jacobian = problem.jacobian(x);
    const MatrixXd weighted = problem.weights(r).asDiagonal() * jacobian;
    const MatrixXd normal = jacobian.transpose() * weighted;
    const VectorXd gradient = weighted.transpose() * r;
    bool better = false;
    while (!better && damping < 1e8) {
      MatrixXd damped = normal;
      // An unknown that no measurement tells of stays where it is.
      damped.diagonal() += damping * normal.diagonal() + VectorXd::Constant(x.size(), 1e-9 * (1 + normal.trace()));
      const VectorXd next = problem.clamped(x - damped.ldlt().solve(gradient));
      const VectorXd next_r = problem.residuals(next);
      const double next_loss = problem.loss(next_r);
      better = next_loss < loss;
      if (!better) {
        damping *= 4;
        continue;
      }
      const double gain = loss - next_loss;
      x = next;
      r = next_r;
      loss = next_loss;
      damping = std::max(damping / 9, 1e-9);
      if (gain < 1e-10 * loss) return {problem.values_of(x), loss};
    }
  }
  return {problem.values_of(x), loss};
}

}  // namespace moeplan::calibrate
