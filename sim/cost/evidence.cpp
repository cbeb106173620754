#include "cost/evidence.h"

#include <array>
#include <string_view>

#include "base/check.h"

namespace moeplan::cost {
namespace {

// The profile keys that the model of a family reads: a whole section ("gemm.") or one key.
struct Family {
  const char* name;
  std::array<std::string_view, 6> keys;
};

constexpr std::array<Family, 7> kFamilies = {{
    {"dense GEMM", {"gemm.", "device.sm_count"}},
    {"grouped GEMM", {"grouped_gemm.", "gemm.", "device.sm_count"}},
    {"attention", {"attention.", "gemm.launch"}},
    {"memory-bound", {"memory_bound."}},
    {"host", {"host."}},
    {"all-to-all",
     {"network.gpus_per_node", "network.scale_up_", "network.nics_per_node", "network.nic_",
      "network.message_half_size", "memory_bound.bandwidth"}},
    {"collectives", {"network."}},  // point to point, too
}};

bool reads(const Family& family, std::string_view key) {
  for (const std::string_view prefix : family.keys)
    if (!prefix.empty() && key.starts_with(prefix)) return true;
  return false;
}

}  // namespace

std::vector<FamilyEvidence> family_evidence(const topology::HardwareProfile& profile) {
  const auto values = profile.all();
  std::vector<FamilyEvidence> families;
  for (const Family& family : kFamilies) {
    FamilyEvidence weakest{family.name, topology::Evidence::measured, ""};
    for (const auto& [key, value] : values) {
      if (!reads(family, key)) continue;
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
