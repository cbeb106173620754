#pragma once
#include <optional>
#include <string>

#include "measurements/measurement.h"
#include "topology/hardware.h"

namespace moeplan::measurements {

// What a profile's cost models say of a measured operation, or why they say nothing.
struct Prediction {
  std::optional<double> seconds;
  std::string reason;
  topology::Evidence evidence = topology::Evidence::assumed;  // the weakest among the values that were read
  std::string weakest_key;
};

// Needs a row with status ok.
Prediction predict(const Measurement& row, const topology::HardwareProfile& profile);

}  // namespace moeplan::measurements
