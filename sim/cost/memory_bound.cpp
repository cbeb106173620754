#include "base/check.h"
#include "cost/kernels.h"

// docs/models.md, Memory-bound operations.
namespace moeplan::cost {

double memory_bound_time_s(double bytes, MemoryAccess access, const topology::HardwareProfile& profile) {
  MOEPLAN_CHECK(bytes >= 0, "bytes are never negative");
  if (bytes == 0) return 0;
  const topology::HardwareProfile::MemoryBound& memory = profile.memory_bound;
  double bandwidth = memory.bandwidth.value;
  if (access == MemoryAccess::permute) bandwidth *= memory.permute_efficiency.value;
  if (access == MemoryAccess::loss) bandwidth *= memory.loss_efficiency.value;
  return profile.time_scale.memory_bound * (memory.floor.value + bytes / bandwidth);
}

}  // namespace moeplan::cost
