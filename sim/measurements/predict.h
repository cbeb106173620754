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
  cost::Basis basis = cost::Basis::model;  // of products and attention, where the profile holds measured shapes
};

// The profile that predicts a row: short bursts (no gemm.sustained), with the values of the row's library.
topology::HardwareProfile profile_for(const Measurement& row, const topology::HardwareProfile& profile);
// Needs a row with status ok.
Prediction predict(const Measurement& row, const topology::HardwareProfile& profile);
// The same of the profile as it stands, without evidence: for those who called profile_for before.
Prediction predict_seconds(const Measurement& row, const topology::HardwareProfile& profile);

}  // namespace moeplan::measurements
