#pragma once
#include <vector>

#include "plan/plan.h"
#include "schedule/schedule.h"

namespace moeplan::plan {

// Fills plan.blocks and plan.programs from the scenario and plan.decisions.
void write_programs(Plan& plan);

// Microbatches in the order in which a stage visits them: the schedule's, with one more forward ahead where
// expert-parallel communication is hidden under the other direction's compute.
std::vector<schedule::Slot> stage_slots(const scenario::Scenario& scenario, std::int64_t stage);

// The visits of a forward and a backward that take turns: each goes on until it has started an exchange between expert
// ranks, then the other does; backward first.
std::vector<Visit> take_turns(const std::vector<Visit>& forward, const std::vector<Visit>& backward,
                              const std::vector<Block>& blocks);

}  // namespace moeplan::plan
