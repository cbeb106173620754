#pragma once
#include <vector>

#include "config/reader.h"
#include "topology/hardware.h"

namespace moeplan::topology {

// The order of HardwareProfile::shapes.
bool before(const HardwareProfile::MeasuredShape& a, const HardwareProfile::MeasuredShape& b);
// Reads `shapes`, a list of `{ op: gemm, pass: forward, dtype: bf16, sizes: [4096, 8192, 8192], time: 528 us }`.
std::vector<HardwareProfile::MeasuredShape> read_shapes(config::Reader& profile);

}  // namespace moeplan::topology
