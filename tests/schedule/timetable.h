#pragma once
#include <algorithm>
#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "schedule/schedule.h"

// What a schedule comes to when every slot takes a given time and hand-overs take none: the setting in which bubbles
// are published. Exact where durations are whole numbers.
namespace moeplan::test {

struct SlotTimes {
  double forward = 1, input_gradient = 1, weight_gradient = 1;
  double pair = 0;  // a forward and a whole backward that take turns; 0: one after the other
};

struct Timetable {
  bool complete = true;                  // no rank waits for ever
  double makespan = 0;                   // from the first slot to the last, of all ranks
  std::vector<double> begin, end, busy;  // of each rank
};

inline Timetable timetable(const schedule::ScheduleEntry& entry, std::int64_t ranks, std::int64_t microbatches,
                           std::int64_t chunks, const SlotTimes& times = {}) {
  using schedule::Direction;
  using schedule::Placement;
  const std::int64_t stages = entry.placement == Placement::mirrored ? ranks : ranks * chunks;
  // Which stage of the model a slot computes, in the direction in which its microbatch runs.
  const auto stage_of = [&](std::int64_t rank, std::int64_t chunk) {
    switch (entry.placement) {
      case Placement::looped:
        return chunk * ranks + rank;
      case Placement::v_shape:
        return chunk == 0 ? rank : 2 * ranks - 1 - rank;
      case Placement::mirrored:
        return chunk == 0 ? rank : ranks - 1 - rank;
    }
    return std::int64_t{0};
  };
  std::vector<std::vector<schedule::Slot>> slots;
  for (std::int64_t r = 0; r < ranks; ++r) slots.push_back(entry.slots(r, ranks, microbatches, chunks));
  std::map<std::tuple<std::int64_t, std::int64_t, int>, double> done;  // (stage, microbatch, direction) -> end
  const auto ready = [&](const schedule::Slot& slot, std::int64_t rank) {
    const std::int64_t stage = stage_of(rank, slot.chunk);
    const auto after = [&](std::int64_t s, Direction d) {
      const auto found = done.find({s, slot.microbatch, static_cast<int>(d)});
      return found == done.end() ? -1.0 : found->second;
    };
    if (slot.direction == Direction::forward) return stage == 0 ? 0.0 : after(stage - 1, Direction::forward);
    if (slot.direction == Direction::weights) return after(stage, Direction::backward);
    return stage + 1 == stages ? after(stage, Direction::forward) : after(stage + 1, Direction::backward);
  };
  Timetable table;
  table.begin.assign(static_cast<std::size_t>(ranks), -1);
  table.end.assign(static_cast<std::size_t>(ranks), 0);
  table.busy.assign(static_cast<std::size_t>(ranks), 0);
  std::vector<std::size_t> at(static_cast<std::size_t>(ranks), 0);
  for (bool moved = true; moved;) {
    moved = false;
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      const auto r = static_cast<std::size_t>(rank);
      while (at[r] < slots[r].size()) {
        const schedule::Slot& slot = slots[r][at[r]];
        const bool paired = slot.takes_turns && at[r] + 1 < slots[r].size();
        double from = ready(slot, rank), length = times.forward;
        if (slot.direction == Direction::weights) length = times.weight_gradient;
        if (slot.direction == Direction::backward)
          length = times.input_gradient + (slot.split ? 0 : times.weight_gradient);
        if (from < 0) break;
        if (paired) {
          const double other = ready(slots[r][at[r] + 1], rank);
          if (other < 0) break;
          from = std::max(from, other);
          length += times.input_gradient + times.weight_gradient;
          if (times.pair > 0) length = times.pair;
        }
        from = std::max(from, table.end[r]);
        if (table.begin[r] < 0) table.begin[r] = from;
        table.end[r] = from + length;
        table.busy[r] += length;
        for (std::size_t i = at[r]; i <= at[r] + (paired ? 1U : 0U); ++i)
          done[{stage_of(rank, slots[r][i].chunk), slots[r][i].microbatch, static_cast<int>(slots[r][i].direction)}] =
              table.end[r];
        at[r] += paired ? 2 : 1;
        moved = true;
      }
    }
  }
  for (std::size_t r = 0; r < at.size(); ++r) {
    table.complete = table.complete && at[r] == slots[r].size();
    table.makespan = std::max(table.makespan, table.end[r]);
  }
  return table;
}

}  // namespace moeplan::test
