#pragma once
#include <string>

#include "config/document.h"
#include "topology/hardware.h"

namespace moeplan::topology::test {

inline config::Node shipped_profile(const std::string& id) {
  return config::load_yaml(std::string(MOEPLAN_SOURCE_DIR) + "/hw_profiles/" + id + ".yaml");
}

// Round figures: 100 GB/s and 2 us inside a node, 10 GB/s a NIC and 8 us across nodes.
inline HardwareProfile round_profile(double gpus_per_node, double nics_per_node) {
  HardwareProfile profile;
  profile.network.gpus_per_node.value = gpus_per_node;
  profile.network.nics_per_node.value = nics_per_node;
  profile.network.scale_up_bandwidth.value = 200e9;
  profile.network.scale_up_efficiency.value = 0.5;
  profile.network.scale_up_latency.value = 2e-6;
  profile.network.nic_bandwidth.value = 12.5e9;
  profile.network.nic_efficiency.value = 0.8;
  profile.network.nic_latency.value = 8e-6;
  return profile;
}

}  // namespace moeplan::topology::test
