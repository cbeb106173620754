#include "topology/hardware_checks.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>

#include "topology/hardware_keys.h"

namespace moeplan::topology {
namespace {

std::int64_t whole(const Value& value) { return std::llround(value.value); }

}  // namespace

void check_network(const HardwareProfile::Network& network, config::Reader& section) {
  const std::int64_t node = whole(network.gpus_per_node);
  const auto whole_nodes = [&](const char* key, const OptionalValue& value) {
    if (!value || whole(*value) % node == 0) return;
    section.fault(key, fmt::format("expected a multiple of gpus_per_node ({}), got {}", node, whole(*value)));
  };
  whole_nodes("scale_up_domain", network.scale_up_domain);
  whole_nodes("ranks_per_domain", network.ranks_per_domain);
  const std::int64_t domain = network.scale_up_domain ? whole(*network.scale_up_domain) : node;
  if (network.ranks_per_domain && whole(*network.ranks_per_domain) > domain) {
    section.fault("ranks_per_domain", fmt::format("expected at most the {} GPUs of a scale-up domain, got {}", domain,
                                                  whole(*network.ranks_per_domain)));
  }

  if (network.switch_reduction_efficiency.has_value() != network.switch_reduction_from.has_value())
    section.fault(network.switch_reduction_from ? "switch_reduction_from" : "switch_reduction_efficiency",
                  "switch_reduction_efficiency and switch_reduction_from come together");

  const bool rails = network.rails && network.rails->value > 0;
  const bool blocks = network.oversubscription && network.oversubscription->value > 1;
  if (!network.gpus_per_leaf) {
    if (rails) section.fault("rails", "true needs gpus_per_leaf: the GPUs whose NICs hang on one leaf");
    if (blocks) section.fault("oversubscription", "above 1 needs gpus_per_leaf: the GPUs whose NICs hang on one leaf");
    return;
  }
  if (!rails) return whole_nodes("gpus_per_leaf", network.gpus_per_leaf);
  const std::int64_t ports = std::min(whole(network.nics_per_node), node);
  if (node % ports != 0) {
    section.fault("rails", fmt::format("expected the {} NICs of a node to divide its {} GPUs evenly", ports, node));
  } else if (whole(*network.gpus_per_leaf) % (node / ports) != 0) {
    section.fault("gpus_per_leaf", fmt::format("expected a multiple of the {} GPUs that share a NIC, got {}",
                                               node / ports, whole(*network.gpus_per_leaf)));
  }
}

void check_dispatch(const HardwareProfile& profile, config::Reader& section) {
  visit_keys(profile, [&](const char* name, const char* key, const auto& value, Quantity) {
    if constexpr (std::is_same_v<std::remove_cvref_t<decltype(value)>, OptionalValue>) {
      const std::string what = key;
      if (what.ends_with("exponent") || what.ends_with("token_cost") || what == "spread") return;  // have defaults
      if (std::string(name) == "dispatch" && !value && !section.has(key))
        section.fault(key, fmt::format("missing key '{}': the dispatch kernels need all their keys", key));
    }
  });
}

void check_peaks(const HardwareProfile& profile, config::Reader& gemm) {
  const auto check = [&](const char* key, const OptionalValue& achieved, const char* datasheet,
                         const OptionalValue& peak) {
    if (achieved && !peak) gemm.fault(key, fmt::format("needs device.{}, the peak of the datasheet", datasheet));
  };
  check("peak_fp8", profile.gemm.peak_fp8, "peak_fp8", profile.device.peak_fp8);
  check("peak_mxfp8", profile.gemm.peak_mxfp8, "peak_fp8", profile.device.peak_fp8);
  check("peak_fp4", profile.gemm.peak_fp4, "peak_fp4", profile.device.peak_fp4);
  const auto check_sustained = [&](const char* key, const OptionalValue& sustained, const char* burst,
                                   const Value* peak) {
    if (!sustained) return;
    if (peak == nullptr) gemm.fault(key, fmt::format("needs gemm.{}, the rate of short bursts", burst));
    if (peak != nullptr && sustained->value > peak->value)
      gemm.fault(key, fmt::format("expected at most gemm.{}, the rate of short bursts", burst));
  };
  const auto given = [](const OptionalValue& value) { return value ? &*value : nullptr; };
  check_sustained("sustained", profile.gemm.sustained, "peak", &profile.gemm.peak);
  check_sustained("sustained_fp8", profile.gemm.sustained_fp8, "peak_fp8", given(profile.gemm.peak_fp8));
  check_sustained("sustained_mxfp8", profile.gemm.sustained_mxfp8, "peak_mxfp8", given(profile.gemm.peak_mxfp8));
  check_sustained("sustained_fp4", profile.gemm.sustained_fp4, "peak_fp4", given(profile.gemm.peak_fp4));
}

}  // namespace moeplan::topology
