#pragma once
#include <cstdint>

#include "plan/plan.h"

namespace moeplan::plan {

// Ranks of a stage that stand for all of it, exactly: 1 where every rank has the same rows and every group of a kind
// the same links; the ranks of one EP group (with their expert tensor parallel peers) where groups are equal but their
// members are not; else all. Only plan.decisions must be filled.
std::int64_t equal_ranks(const Plan& plan);

}  // namespace moeplan::plan
