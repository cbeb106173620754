#pragma once
#include <string>
#include <vector>

#include "measurements/measurement.h"
#include "topology/hardware.h"

namespace moeplan::calibrate {

using Rows = std::vector<const measurements::Measurement*>;

// The rows of one cost model and the keys that a fit to them decides.
struct FamilyRows {
  std::string name;
  std::string needs;  // what the keys are of, for the note when there are too few rows
  Rows rows;
  std::vector<std::string> keys;
};

// In the order in which they must be fitted: later ones read values of earlier ones. `own`: the values go to a library
// of their own, so that a table without dense products may decide what grouped ones share with them.
std::vector<FamilyRows> families_of(const Rows& rows, bool own);

// Where a fit starts, and between which bounds it looks, in base units.
struct Bounds {
  double start = 0, low = 0, high = 0;
};
Bounds bounds_of(const std::string& key, const topology::HardwareProfile& profile, const Rows& rows);

}  // namespace moeplan::calibrate
