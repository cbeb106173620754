#include "schedule/schedule.h"

#include <array>

#include "base/check.h"
#include "schedule/slots.h"

namespace moeplan::schedule {

void check_arguments(std::int64_t stage, std::int64_t stages, std::int64_t microbatches) {
  MOEPLAN_CHECK(stages >= 1 && stage >= 0 && stage < stages, "stage outside the pipeline");
  MOEPLAN_CHECK(microbatches >= 1, "a step has at least one microbatch");
}

std::span<const ScheduleEntry> schedule_table() {
  // Constant once built, so sweeps may read it from several threads.
  static const std::array<ScheduleEntry, 2> table{{
      {"1f1b", "one forward one backward: at most p - stage microbatches in flight", &one_forward_one_backward},
      {"gpipe", "all forwards, then all backwards: every microbatch in flight", &gpipe},
  }};
  return table;
}

const ScheduleEntry* find_schedule(const std::string& name) {
  for (const ScheduleEntry& entry : schedule_table()) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

}  // namespace moeplan::schedule
