#pragma once
#include <cstdint>
#include <functional>
#include <span>
#include <string_view>

#include "topology/hardware.h"

// Measured shapes of a profile beside its cost models (docs/models.md, Measured shapes).
namespace moeplan::cost {

// Where the seconds of a shape come from.
enum class Basis {
  model,         // the profile holds no shapes of the kind
  measured,      // this very shape was timed
  interpolated,  // between timed shapes, near enough to some of them
  extrapolated   // outside them, or far from all: the cost model alone
};
const char* basis_name(Basis basis);

struct ShapeKind {
  std::string_view op, pass, dtype;
};
struct ShapeTime {
  double seconds = 0;
  Basis basis = Basis::model;
};
// `model` gives the cost model's seconds of any sizes of the kind.
ShapeTime shape_time(const topology::HardwareProfile& profile, const ShapeKind& kind,
                     std::span<const std::int64_t> sizes,
                     const std::function<double(std::span<const std::int64_t>)>& model);

}  // namespace moeplan::cost
