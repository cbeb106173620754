#pragma once
#include <string>
#include <vector>

#include "cost/evidence.h"
#include "search/evaluate.h"

// What a result says beside its figures, the same in text and in JSON.
namespace moeplan::report {

// Families of operations whose cost model reads an assumed profile value.
std::vector<cost::FamilyEvidence> assumed_families(const topology::HardwareProfile& profile,
                                                   cost::Precision precision = cost::Precision::bf16);
// "grouped GEMM: the time rests on an assumed value of h100-sxm (gemm.wgrad_efficiency)", one a family.
std::vector<std::string> evidence_warnings(const topology::HardwareProfile& profile,
                                           cost::Precision precision = cost::Precision::bf16);

// Warnings of the scenario, then those of the profile.
std::vector<std::string> warnings_of(const search::Evaluation& evaluation);

// The same for text: the families of the profile in one line.
std::vector<std::string> short_warnings_of(const search::Evaluation& evaluation);

// Assumptions of the scenario, notes of the routing source, then what this version does not model and which keys of
// the JSON are null for it.
std::vector<std::string> assumptions_of(const search::Evaluation& evaluation);
// The last part alone: for results that hold many evaluations.
std::vector<std::string> assumptions_of_version();

}  // namespace moeplan::report
