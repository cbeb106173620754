#pragma once
#include <string>
#include <vector>

#include "cost/kernels.h"
#include "topology/hardware.h"

namespace moeplan::cost {

// Where the seconds of each family of operations come from: the weakest evidence among the profile values that its
// model reads.
struct FamilyEvidence {
  std::string family;  // "dense GEMM", "grouped GEMM", "attention", "memory-bound", "host", "all-to-all", "collectives"
  topology::Evidence evidence;
  std::string weakest_key;  // "gemm.k_pad"
};
// `precision` of the matrix products: its peak is read in place of the bf16 one. Optional keys count where they are
// there.
std::vector<FamilyEvidence> family_evidence(const topology::HardwareProfile& profile,
                                            Precision precision = Precision::bf16);

}  // namespace moeplan::cost
