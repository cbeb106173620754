#include "schedule/schedule.h"

#include <algorithm>
#include <array>

#include "base/check.h"
#include "schedule/slots.h"

namespace moeplan::schedule {

void check_arguments(std::int64_t stage, std::int64_t stages, std::int64_t microbatches, std::int64_t chunks) {
  MOEPLAN_CHECK(chunks >= 1, "a rank has at least one chunk");
  MOEPLAN_CHECK(stages >= 1 && stage >= 0 && stage < stages, "stage outside the pipeline");
  MOEPLAN_CHECK(microbatches >= 1, "a step has at least one microbatch");
}

std::span<const ScheduleEntry> schedule_table() {
  // Constant once built, so sweeps may read it from several threads.
  static const std::array<ScheduleEntry, 7> table{{
      {"1f1b", "one forward one backward: at most p - stage microbatches in flight", false, &one_forward_one_backward},
      {"interleaved", "1F1B over virtual stages: smaller bubble, more in flight", true, &interleaved},
      {"gpipe", "all forwards, then all backwards: every microbatch in flight", false, &gpipe},
      {.name = "zb_h1",
       .description = "1F1B with weight gradients apart: a third of the bubble, p microbatches in flight on every rank",
       .interleaves = false,
       .slots = &zb_h1,
       .splits = true},
      {.name = "zb_v",
       .description = "two stages a rank in a V, weight gradients apart: no bubble inside, 1F1B's memory, balanced",
       .interleaves = false,
       .slots = &zb_v,
       .placement = Placement::v_shape,
       .splits = true},
      {.name = "dualpipe",
       .description = "microbatches from both ends, forward overlapped with backward: two copies of the parameters",
       .interleaves = false,
       .slots = &dualpipe,
       .placement = Placement::mirrored,
       .splits = true,
       .even = true,
       .least_per_stage = 2},
      {.name = "dualpipe_v",
       .description = "DualPipe folded into a V: one copy of the parameters, two stages a rank",
       .interleaves = false,
       .slots = &dualpipe_v,
       .placement = Placement::v_shape,
       .splits = true,
       .least_per_stage = 2},
  }};
  return table;
}

const ScheduleEntry* find_schedule(const std::string& name) {
  for (const ScheduleEntry& entry : schedule_table()) {
    if (entry.name == name) return &entry;
  }
  return nullptr;
}

std::vector<Slot> one_forward_ahead(const std::vector<Slot>& slots) {
  std::vector<Slot> forwards, backwards, result;
  for (const Slot& slot : slots) (slot.direction == Direction::forward ? forwards : backwards).push_back(slot);
  const auto first_backward =
      std::find_if(slots.begin(), slots.end(), [](const Slot& slot) { return slot.direction == Direction::backward; });
  const auto ahead = static_cast<std::size_t>(first_backward - slots.begin());
  result.assign(forwards.begin(), forwards.begin() + static_cast<std::ptrdiff_t>(ahead));
  for (std::size_t i = 0; i < backwards.size(); ++i) {
    if (ahead + i < forwards.size()) {
      result.push_back(forwards[ahead + i]);
      result.back().takes_turns = true;
    }
    result.push_back(backwards[i]);
  }
  return result;
}

std::int64_t most_in_flight(const std::vector<Slot>& slots) {
  std::int64_t now = 0, most = 0;
  for (const Slot& slot : slots) {
    if (slot.direction == Direction::forward) ++now;
    if (slot.direction == Direction::weights || (slot.direction == Direction::backward && !slot.split)) --now;
    most = std::max(most, now);
  }
  return most;
}

}  // namespace moeplan::schedule
