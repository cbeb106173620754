#include <fmt/core.h>

#include "cost/dispatch.h"
#include "cost/kernels.h"
#include "scenario/rules.h"

// What a scenario asks of a machine that its profile does not state.
namespace moeplan::scenario {

namespace {

void check_precision(const Raw& raw, const topology::HardwareProfile& profile, base::Faults& faults) {
  if (cost::supports(profile, cost_precision(raw.training.precision))) return;
  faults.add(raw.places.where("training.precision"),
             fmt::format("the profile {} states no rate of {}", profile.id,
                         precision_names()[static_cast<std::size_t>(raw.training.precision)]),
             "bf16, or another profile", {raw.places.where("cluster.hardware")});
}

void check_host_link(const Raw& raw, const topology::HardwareProfile& profile, base::Faults& faults) {
  if (cost::has_host_link(profile)) return;
  const auto missing = [&](const char* path) {
    faults.add(raw.places.where(path),
               fmt::format("the profile {} states no network.host_link_bandwidth to copy over", profile.id), {},
               {raw.places.where("cluster.hardware")});
  };
  if (!raw.memory.offload_modules.empty()) missing("memory.offload_modules");
  if (raw.optimizer.offload_fraction > 0) missing("optimizer.cpu_offload");
}

}  // namespace

cost::Precision cost_precision(Precision precision) {
  switch (precision) {
    case Precision::bf16:
    case Precision::fp16:
      return cost::Precision::bf16;  // the same units at the same rate
    case Precision::fp8_tensorwise:
    case Precision::fp8_rowwise:
    case Precision::fp8_blockwise:
      return cost::Precision::fp8;
    case Precision::mxfp8:
      return cost::Precision::mxfp8;
    case Precision::nvfp4:
      return cost::Precision::nvfp4;
  }
  return cost::Precision::bf16;
}

void check_hardware(const Raw& raw, const topology::HardwareProfile& profile, base::Faults& faults) {
  check_precision(raw, profile, faults);
  check_host_link(raw, profile, faults);
}

}  // namespace moeplan::scenario
