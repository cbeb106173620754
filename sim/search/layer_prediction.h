#pragma once
#include <cstdint>

#include "measurements/layer_run.h"
#include "plan/plan.h"
#include "topology/hardware.h"

namespace moeplan::search {

// What the plan of a layer's routed part says of a run: seconds, and bytes as the allocator counts them.
struct LayerPrediction {
  double forward_s = 0, backward_s = 0;
  std::int64_t forward_peak_bytes = 0, backward_peak_bytes = 0;  // allocated: live tensors, in whole 512 B
  std::int64_t peak_reserved_bytes = 0;
  double step_s() const { return forward_s + backward_s; }
  std::int64_t peak_bytes() const {
    return forward_peak_bytes > backward_peak_bytes ? forward_peak_bytes : backward_peak_bytes;
  }
};

// A plan of one rank whose program is the run's layer, forward and backward, with the row counts of the run.
plan::Plan layer_plan(const measurements::LayerRun& run, const topology::HardwareProfile& profile);
// Needs a run with status ok.
LayerPrediction predict_layer(const measurements::LayerRun& run, const topology::HardwareProfile& profile);

}  // namespace moeplan::search
