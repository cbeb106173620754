#include "cost/shapes.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

// docs/models.md, Measured shapes.
namespace moeplan::cost {
namespace {

using Measured = topology::HardwareProfile::MeasuredShape;

constexpr double kNear = 0.6931471805599453;  // log 2: neighbours differ by less than a factor of two in every size

// The largest logarithm of a ratio of sizes.
double distance(std::span<const std::int64_t> a, std::span<const std::int64_t> b) {
  double largest = 0;
  for (std::size_t i = 0; i < a.size(); ++i)
    largest = std::max(largest, std::abs(std::log(static_cast<double>(a[i]) / static_cast<double>(b[i]))));
  return largest;
}

bool is_inside(std::span<const std::int64_t> sizes, std::span<const Measured> shapes) {
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const auto [low, high] = std::minmax_element(
        shapes.begin(), shapes.end(), [i](const Measured& a, const Measured& b) { return a.sizes[i] < b.sizes[i]; });
    if (sizes[i] < low->sizes[i] || sizes[i] > high->sizes[i]) return false;
  }
  return true;
}

std::span<const Measured> of_kind(const topology::HardwareProfile& profile, const ShapeKind& kind) {
  const auto is = [&](const Measured& shape) {
    return shape.op == kind.op && shape.pass == kind.pass && shape.dtype == kind.dtype;
  };
  const auto first = std::find_if(profile.shapes.begin(), profile.shapes.end(), is);  // they are sorted by kind
  const auto last = std::find_if_not(first, profile.shapes.end(), is);
  return {first, last};
}

}  // namespace

const char* basis_name(Basis basis) {
  constexpr std::array<const char*, 4> kNames = {"model", "measured", "interpolated", "extrapolated"};
  return kNames[static_cast<std::size_t>(basis)];
}

ShapeTime shape_time(const topology::HardwareProfile& profile, const ShapeKind& kind,
                     std::span<const std::int64_t> sizes,
                     const std::function<double(std::span<const std::int64_t>)>& model) {
  if (profile.shapes.empty()) return {model(sizes), Basis::model};
  const std::span<const Measured> shapes = of_kind(profile, kind);
  if (shapes.empty()) return {model(sizes), Basis::model};
  // What the model misses at timed shapes, on a logarithmic scale, weighted by the inverse square of their distance.
  double weights = 0, miss = 0;
  for (const Measured& shape : shapes) {
    const double away = distance(sizes, shape.sizes);
    if (away == 0) return {shape.seconds, Basis::measured};
    if (away >= kNear) continue;
    const double weight = 1 / (away * away);
    weights += weight;
    miss += weight * std::log(shape.seconds / model(shape.sizes));
  }
  if (weights == 0 || !is_inside(sizes, shapes)) return {model(sizes), Basis::extrapolated};
  return {model(sizes) * std::exp(miss / weights), Basis::interpolated};
}

}  // namespace moeplan::cost
