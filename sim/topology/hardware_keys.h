#pragma once
#include "topology/hardware.h"

// The one list of the keys of a hardware profile: reading, `all()` and the documentation's order follow it.
namespace moeplan::topology {

// What a value may be; each kind has one unit and one range (hardware.cpp).
enum class Quantity {
  bytes,             // > 0
  bytes_or_none,     // >= 0
  bytes_per_second,  // > 0
  flop_per_second,   // > 0
  seconds,           // >= 0
  count,             // whole number >= 1
  length,            // plain number >= 0
  exponent,          // plain number in (0, 16]
  efficiency,        // plain number in (0, 1.5]
};

// Calls visit(section, key, value, quantity) for each value of the profile, in file order. Profile: HardwareProfile,
// const or not.
template <typename Profile, typename Visit>
void visit_values(Profile& profile, Visit&& visit) {
  auto& device = profile.device;
  visit("device", "memory_capacity", device.memory_capacity, Quantity::bytes);
  visit("device", "sm_count", device.sm_count, Quantity::count);
  visit("device", "peak_bf16", device.peak_bf16, Quantity::flop_per_second);
  visit("device", "memory_bandwidth", device.memory_bandwidth, Quantity::bytes_per_second);
  auto& gemm = profile.gemm;
  visit("gemm", "launch", gemm.launch, Quantity::seconds);
  visit("gemm", "bandwidth", gemm.bandwidth, Quantity::bytes_per_second);
  visit("gemm", "peak", gemm.peak, Quantity::flop_per_second);
  visit("gemm", "k_pad", gemm.k_pad, Quantity::length);
  visit("gemm", "overlap_exponent", gemm.overlap_exponent, Quantity::exponent);
  visit("gemm", "dgrad_efficiency", gemm.dgrad_efficiency, Quantity::efficiency);
  visit("gemm", "wgrad_efficiency", gemm.wgrad_efficiency, Quantity::efficiency);
  auto& grouped = profile.grouped_gemm;
  visit("grouped_gemm", "tile_rows", grouped.tile_rows, Quantity::count);
  visit("grouped_gemm", "efficiency", grouped.efficiency, Quantity::efficiency);
  visit("grouped_gemm", "group_overhead", grouped.group_overhead, Quantity::seconds);
  auto& attention = profile.attention;
  visit("attention", "peak_hd128", attention.peak_hd128, Quantity::flop_per_second);
  visit("attention", "half_length_hd128", attention.half_length_hd128, Quantity::length);
  visit("attention", "peak_hd64", attention.peak_hd64, Quantity::flop_per_second);
  visit("attention", "half_length_hd64", attention.half_length_hd64, Quantity::length);
  visit("attention", "backward_rate", attention.backward_rate, Quantity::efficiency);
  auto& memory = profile.memory_bound;
  visit("memory_bound", "floor", memory.floor, Quantity::seconds);
  visit("memory_bound", "bandwidth", memory.bandwidth, Quantity::bytes_per_second);
  visit("memory_bound", "permute_efficiency", memory.permute_efficiency, Quantity::efficiency);
  visit("memory_bound", "loss_efficiency", memory.loss_efficiency, Quantity::efficiency);
  visit("host", "launch", profile.host.launch, Quantity::seconds);
  visit("host", "sync", profile.host.sync, Quantity::seconds);
  auto& network = profile.network;
  visit("network", "gpus_per_node", network.gpus_per_node, Quantity::count);
  visit("network", "scale_up_bandwidth", network.scale_up_bandwidth, Quantity::bytes_per_second);
  visit("network", "scale_up_efficiency", network.scale_up_efficiency, Quantity::efficiency);
  visit("network", "scale_up_latency", network.scale_up_latency, Quantity::seconds);
  visit("network", "nics_per_node", network.nics_per_node, Quantity::count);
  visit("network", "nic_bandwidth", network.nic_bandwidth, Quantity::bytes_per_second);
  visit("network", "nic_efficiency", network.nic_efficiency, Quantity::efficiency);
  visit("network", "nic_latency", network.nic_latency, Quantity::seconds);
  visit("network", "message_half_size", network.message_half_size, Quantity::bytes_or_none);
  visit("network", "collective_efficiency", network.collective_efficiency, Quantity::efficiency);
  visit("network", "collective_exponent", network.collective_exponent, Quantity::exponent);
  auto& overheads = profile.overheads;
  visit("overheads", "context", overheads.context, Quantity::bytes_or_none);
  visit("overheads", "communicator", overheads.communicator, Quantity::bytes_or_none);
  visit("overheads", "workspace", overheads.workspace, Quantity::bytes_or_none);
}

}  // namespace moeplan::topology
