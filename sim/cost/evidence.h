#pragma once
#include <string>
#include <vector>

#include "topology/hardware.h"

namespace moeplan::cost {

// Where the seconds of each family of operations come from: the weakest evidence among the profile values that its
// model reads.
struct FamilyEvidence {
  std::string family;  // "dense GEMM", "grouped GEMM", "attention", "memory-bound", "host", "all-to-all", "collectives"
  topology::Evidence evidence;
  std::string weakest_key;  // "gemm.k_pad"
};
std::vector<FamilyEvidence> family_evidence(const topology::HardwareProfile& profile);

}  // namespace moeplan::cost
