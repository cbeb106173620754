#include "base/check.h"
#include "cost/kernels.h"

// docs/models.md, Host.
namespace moeplan::cost {

bool has_host_link(const topology::HardwareProfile& profile) { return profile.network.host_link_bandwidth.has_value(); }

double host_copy_time_s(double bytes, const topology::HardwareProfile& profile) {
  MOEPLAN_CHECK(bytes >= 0, "bytes are never negative");
  if (bytes == 0) return 0;
  MOEPLAN_CHECK(has_host_link(profile), "the scenario refuses offload on a profile without a host link");
  return profile.time_scale.network * (profile.memory_bound.floor.value + bytes / profile.network.host_link_bandwidth->value);
}

}  // namespace moeplan::cost
