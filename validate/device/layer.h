#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "layer/layer_case.h"
#include "run.h"

// Whole MoE layers on the device, for `moeplan validate --layer` (docs/calibration.md, Layer runs).
namespace moeplan::device {

struct LayerOptions {
  std::vector<layer::LayerCase> cases;
  std::vector<bool> together = {true};  // products of the experts in one call, or one by one: each case with each
  std::uint64_t seed = 1;               // of the tokens' order
  double seconds = 240;                 // for all of them
};

// A line of schema "moeplan.layer/1" for each case; what does not fit into the device's memory is left out with the
// reason. Returns the exit status: 0.
int run_layer(const LayerOptions& options, Timer& timer, LineWriter& writer);

// Small layers on the device against the same program on the host.
std::vector<KernelCheck> check_layers(cudaStream_t stream);

int layer_command(const std::vector<std::string>& words);

}  // namespace moeplan::device
