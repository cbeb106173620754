#include "cost/evidence.h"

#include <array>
#include <string_view>

#include "base/check.h"

namespace moeplan::cost {
namespace {

// The profile keys that the model of a family reads: a whole section ("gemm.") or one key.
struct Family {
  const char* name;
  std::array<std::string_view, 12> keys;
};

constexpr std::array<Family, 7> kFamilies = {{
    {"dense GEMM", {"gemm.", "device.sm_count"}},
    {"grouped GEMM", {"grouped_gemm.", "gemm.", "device.sm_count"}},
    {"attention", {"attention.", "gemm.launch"}},
    {"memory-bound", {"memory_bound."}},
    {"host", {"host.launch", "host.operation", "host.sync"}},
    {"all-to-all",
     {"network.gpus_per_node", "network.scale_up_", "network.nics_per_node", "network.nic_",
      "network.message_half_size", "network.ranks_per_domain", "network.peer_to_peer", "network.oversubscription",
      "network.gpus_per_leaf", "network.rails", "network.health", "memory_bound.bandwidth"}},
    {"collectives",  // point to point, too
     {"network.gpus_per_node", "network.scale_up_", "network.nics_per_node", "network.nic_",
      "network.message_half_size", "network.collective_", "network.ranks_per_domain", "network.peer_to_peer",
      "network.oversubscription", "network.gpus_per_leaf", "network.rails", "network.health"}},
}};

// The rates of a precision that is not in use say nothing about the result.
bool other_rate(std::string_view key, Precision precision) {
  if (key == "gemm.peak" || key == "gemm.sustained") return false;  // the others scale the pipeline fill by them
  if (!key.starts_with("gemm.peak") && !key.starts_with("gemm.sustained")) return false;
  constexpr std::array<std::string_view, 4> kEnds = {"", "_fp8", "_mxfp8", "_fp4"};
  const std::string_view end = key.substr(key.find('_', std::string_view("gemm.").size()));
  return end != kEnds[static_cast<std::size_t>(precision)];
}

bool reads(const Family& family, std::string_view key) {
  if (key.ends_with(".spread")) return false;  // of errors: no time comes from it
  for (const std::string_view prefix : family.keys)
    if (!prefix.empty() && key.starts_with(prefix)) return true;
  return false;
}

}  // namespace

std::vector<FamilyEvidence> family_evidence(const topology::HardwareProfile& profile, Precision precision) {
  const auto values = profile.all();
  std::vector<FamilyEvidence> families;
  for (const Family& family : kFamilies) {
    FamilyEvidence weakest{family.name, topology::Evidence::measured, ""};
    for (const auto& [key, value] : values) {
      if (!reads(family, key) || other_rate(key, precision)) continue;
      if (!weakest.weakest_key.empty() && value.evidence <= weakest.evidence) continue;
      weakest.evidence = value.evidence;
      weakest.weakest_key = key;
    }
    MOEPLAN_CHECK(!weakest.weakest_key.empty(), "a family reads keys that a profile has");
    families.push_back(weakest);
  }
  return families;
}

}  // namespace moeplan::cost
