#pragma once
#include <type_traits>

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
  ratio,             // plain number in [1, 1000]
  health,            // plain number in [0.5, 1]
  share,             // plain number in (0, 1]
  spread,            // plain number in (0, 2]
  flag,              // true or false, held as 1 or 0
};

// Calls visit(section, key, value, quantity) for each key of the profile, present or not, in order; `value` is a Value
// (required) or an OptionalValue. Profile: HardwareProfile, const or not.
template <typename Profile, typename Visit>
void visit_keys(Profile& profile, Visit&& visit) {
  auto& device = profile.device;
  visit("device", "memory_capacity", device.memory_capacity, Quantity::bytes);
  visit("device", "sm_count", device.sm_count, Quantity::count);
  visit("device", "peak_bf16", device.peak_bf16, Quantity::flop_per_second);
  visit("device", "memory_bandwidth", device.memory_bandwidth, Quantity::bytes_per_second);
  visit("device", "peak_fp8", device.peak_fp8, Quantity::flop_per_second);
  visit("device", "peak_fp4", device.peak_fp4, Quantity::flop_per_second);
  auto& gemm = profile.gemm;
  visit("gemm", "launch", gemm.launch, Quantity::seconds);
  visit("gemm", "bandwidth", gemm.bandwidth, Quantity::bytes_per_second);
  visit("gemm", "peak", gemm.peak, Quantity::flop_per_second);
  visit("gemm", "k_pad", gemm.k_pad, Quantity::length);
  visit("gemm", "overlap_exponent", gemm.overlap_exponent, Quantity::exponent);
  visit("gemm", "dgrad_efficiency", gemm.dgrad_efficiency, Quantity::efficiency);
  visit("gemm", "wgrad_efficiency", gemm.wgrad_efficiency, Quantity::efficiency);
  visit("gemm", "peak_fp8", gemm.peak_fp8, Quantity::flop_per_second);
  visit("gemm", "peak_mxfp8", gemm.peak_mxfp8, Quantity::flop_per_second);
  visit("gemm", "peak_fp4", gemm.peak_fp4, Quantity::flop_per_second);
  visit("gemm", "sustained", gemm.sustained, Quantity::flop_per_second);
  visit("gemm", "sustained_fp8", gemm.sustained_fp8, Quantity::flop_per_second);
  visit("gemm", "sustained_mxfp8", gemm.sustained_mxfp8, Quantity::flop_per_second);
  visit("gemm", "sustained_fp4", gemm.sustained_fp4, Quantity::flop_per_second);
  visit("gemm", "in_steps", gemm.in_steps, Quantity::share);
  visit("gemm", "spread", gemm.spread, Quantity::spread);
  auto& grouped = profile.grouped_gemm;
  visit("grouped_gemm", "tile_rows", grouped.tile_rows, Quantity::count);
  visit("grouped_gemm", "efficiency", grouped.efficiency, Quantity::efficiency);
  visit("grouped_gemm", "group_overhead", grouped.group_overhead, Quantity::seconds);
  visit("grouped_gemm", "group_issue", grouped.group_issue, Quantity::seconds);
  visit("grouped_gemm", "overlap_exponent", grouped.overlap_exponent, Quantity::exponent);
  visit("grouped_gemm", "layer_overhead", grouped.layer_overhead, Quantity::seconds);
  visit("grouped_gemm", "spread", grouped.spread, Quantity::spread);
  auto& attention = profile.attention;
  visit("attention", "peak_hd128", attention.peak_hd128, Quantity::flop_per_second);
  visit("attention", "half_length_hd128", attention.half_length_hd128, Quantity::length);
  visit("attention", "peak_hd64", attention.peak_hd64, Quantity::flop_per_second);
  visit("attention", "half_length_hd64", attention.half_length_hd64, Quantity::length);
  visit("attention", "backward_rate", attention.backward_rate, Quantity::efficiency);
  visit("attention", "peak_hd256", attention.peak_hd256, Quantity::flop_per_second);
  visit("attention", "half_length_hd256", attention.half_length_hd256, Quantity::length);
  visit("attention", "peak_mla", attention.peak_mla, Quantity::flop_per_second);
  visit("attention", "half_length_mla", attention.half_length_mla, Quantity::length);
  visit("attention", "launch", attention.launch, Quantity::seconds);
  visit("attention", "backward_launch", attention.backward_launch, Quantity::seconds);
  visit("attention", "tail", attention.tail, Quantity::length);
  visit("attention", "tile_rows", attention.tile_rows, Quantity::count);
  visit("attention", "backward_half_length", attention.backward_half_length, Quantity::length);
  visit("attention", "backward_tail", attention.backward_tail, Quantity::length);
  visit("attention", "cache_token", attention.cache_token, Quantity::seconds);
  visit("attention", "spread", attention.spread, Quantity::spread);
  auto& memory = profile.memory_bound;
  visit("memory_bound", "floor", memory.floor, Quantity::seconds);
  visit("memory_bound", "bandwidth", memory.bandwidth, Quantity::bytes_per_second);
  visit("memory_bound", "permute_efficiency", memory.permute_efficiency, Quantity::efficiency);
  visit("memory_bound", "loss_efficiency", memory.loss_efficiency, Quantity::efficiency);
  visit("memory_bound", "spread", memory.spread, Quantity::spread);
  auto& dispatch = profile.dispatch;
  visit("dispatch", "launch", dispatch.launch, Quantity::seconds);
  visit("dispatch", "rate_per_sm", dispatch.rate_per_sm, Quantity::bytes_per_second);
  visit("dispatch", "cap", dispatch.cap, Quantity::bytes_per_second);
  visit("dispatch", "exponent", dispatch.exponent, Quantity::exponent);
  visit("dispatch", "token_cost", dispatch.token_cost, Quantity::seconds);
  visit("dispatch", "combine_launch", dispatch.combine_launch, Quantity::seconds);
  visit("dispatch", "combine_rate_per_sm", dispatch.combine_rate_per_sm, Quantity::bytes_per_second);
  visit("dispatch", "combine_cap", dispatch.combine_cap, Quantity::bytes_per_second);
  visit("dispatch", "combine_exponent", dispatch.combine_exponent, Quantity::exponent);
  visit("dispatch", "combine_token_cost", dispatch.combine_token_cost, Quantity::seconds);
  visit("dispatch", "sms", dispatch.sms, Quantity::count);
  visit("dispatch", "spread", dispatch.spread, Quantity::spread);
  visit("host", "launch", profile.host.launch, Quantity::seconds);
  visit("host", "operation", profile.host.operation, Quantity::seconds);
  visit("host", "sync", profile.host.sync, Quantity::seconds);
  visit("host", "memory", profile.host.memory, Quantity::bytes);
  visit("host", "memory_bandwidth", profile.host.memory_bandwidth, Quantity::bytes_per_second);
  visit("host", "spread", profile.host.spread, Quantity::spread);
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
  visit("network", "collective_launch", network.collective_launch, Quantity::seconds);
  visit("network", "collective_sms", network.collective_sms, Quantity::count);
  visit("network", "switch_reduction_efficiency", network.switch_reduction_efficiency, Quantity::efficiency);
  visit("network", "switch_reduction_from", network.switch_reduction_from, Quantity::count);
  visit("network", "scale_up_domain", network.scale_up_domain, Quantity::count);
  visit("network", "ranks_per_domain", network.ranks_per_domain, Quantity::count);
  visit("network", "peer_to_peer", network.peer_to_peer, Quantity::flag);
  visit("network", "oversubscription", network.oversubscription, Quantity::ratio);
  visit("network", "gpus_per_leaf", network.gpus_per_leaf, Quantity::count);
  visit("network", "rails", network.rails, Quantity::flag);
  visit("network", "health", network.health, Quantity::health);
  visit("network", "host_link_bandwidth", network.host_link_bandwidth, Quantity::bytes_per_second);
  visit("network", "spread", network.spread, Quantity::spread);
  auto& overheads = profile.overheads;
  visit("overheads", "context", overheads.context, Quantity::bytes_or_none);
  visit("overheads", "communicator", overheads.communicator, Quantity::bytes_or_none);
  visit("overheads", "workspace", overheads.workspace, Quantity::bytes_or_none);
  visit("overheads", "transformer_engine_workspace", overheads.transformer_engine_workspace, Quantity::bytes_or_none);
}

// As visit_keys, for the values that are there: `value` is always a Value.
template <typename Profile, typename Visit>
void visit_values(Profile& profile, Visit&& visit) {
  visit_keys(profile, [&](const char* section, const char* key, auto& value, Quantity quantity) {
    if constexpr (std::is_same_v<std::remove_const_t<std::remove_reference_t<decltype(value)>>, Value>) {
      visit(section, key, value, quantity);
    } else if (value) {
      visit(section, key, *value, quantity);
    }
  });
}

}  // namespace moeplan::topology
