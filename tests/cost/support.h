#pragma once
#include <string>
#include <vector>

#include "config/document.h"
#include "topology/cluster.h"
#include "topology/hardware.h"

namespace moeplan::cost::test {

inline topology::HardwareProfile shipped(const std::string& id) {
  base::Faults faults;
  const std::string path = std::string(MOEPLAN_SOURCE_DIR) + "/hw_profiles/" + id + ".yaml";
  topology::HardwareProfile profile = topology::read_hardware(config::load_yaml(path), id, faults);
  faults.throw_if_any();
  return profile;
}

inline topology::Value assumed(double number) { return {number, topology::Evidence::assumed, "test"}; }

// The same bytes from every member to every member.
inline std::vector<std::int64_t> uniform_bytes(std::size_t members, std::int64_t bytes) {
  return std::vector<std::int64_t>(members * members, bytes);
}

// Of single operations: without what power and steps leave of their rates.
inline topology::HardwareProfile burst(const std::string& id) {
  topology::HardwareProfile profile = shipped(id);
  profile.gemm.drop_sustained();
  return profile;
}

// Figures that a reader can use by hand: 100 multiprocessors, 100 TFLOP/s (1 TFLOP/s each), 1 TB/s; 100 GB/s and 2 us
// inside a node, 10 GB/s a NIC and 10 us across.
inline topology::HardwareProfile round_profile(double gpus_per_node = 8, double nics_per_node = 8) {
  topology::HardwareProfile profile;
  profile.device.sm_count.value = 100;
  profile.gemm.launch.value = 2e-6;
  profile.gemm.bandwidth.value = 1e12;
  profile.gemm.peak.value = 100e12;
  profile.gemm.k_pad.value = 0;
  profile.gemm.overlap_exponent.value = 2;
  profile.gemm.dgrad_efficiency.value = 0.8;
  profile.gemm.wgrad_efficiency.value = 0.5;
  profile.grouped_gemm.tile_rows.value = 128;
  profile.grouped_gemm.efficiency.value = 0.5;
  profile.grouped_gemm.group_overhead.value = 1e-6;
  profile.attention.peak_hd128.value = 400e12;
  profile.attention.half_length_hd128.value = 1000;
  profile.attention.peak_hd64.value = 200e12;
  profile.attention.half_length_hd64.value = 3000;
  profile.attention.backward_rate.value = 0.5;
  profile.memory_bound.floor.value = 2e-6;
  profile.memory_bound.bandwidth.value = 1e12;
  profile.memory_bound.permute_efficiency.value = 0.5;
  profile.memory_bound.loss_efficiency.value = 0.25;
  profile.network.gpus_per_node.value = gpus_per_node;
  profile.network.scale_up_bandwidth.value = 200e9;
  profile.network.scale_up_efficiency.value = 0.5;
  profile.network.scale_up_latency.value = 2e-6;
  profile.network.nics_per_node.value = nics_per_node;
  profile.network.nic_bandwidth.value = 12.5e9;
  profile.network.nic_efficiency.value = 0.8;
  profile.network.nic_latency.value = 10e-6;
  profile.network.message_half_size.value = 50e3;
  profile.network.collective_efficiency.value = 0.8;
  profile.network.collective_exponent.value = 1;
  return profile;
}

inline std::vector<std::int64_t> first_ranks(std::int64_t count, std::int64_t stride = 1) {
  std::vector<std::int64_t> ranks;
  for (std::int64_t i = 0; i < count; ++i) ranks.push_back(i * stride);
  return ranks;
}

}  // namespace moeplan::cost::test
