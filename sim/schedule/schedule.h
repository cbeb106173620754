#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

// Pipeline schedules: the order in which one stage visits microbatches.
namespace moeplan::schedule {

enum class Direction : std::uint8_t { forward, backward };

struct Slot {
  Direction direction = Direction::forward;
  std::int64_t microbatch = 0;
  std::int64_t chunk = 0;    // virtual stage on this rank; 0 without interleaving
  bool takes_turns = false;  // a forward that may take turns with the backward behind it (one_forward_ahead)
};

// A schedule is a pure function of stage, stages, microbatches and chunks (virtual stages a rank; 1 where it does not
// interleave).
struct ScheduleEntry {
  std::string name;
  std::string description;
  bool interleaves;  // takes more than one chunk, and needs microbatches in multiples of the stages
  std::vector<Slot> (*slots)(std::int64_t stage, std::int64_t stages, std::int64_t microbatches, std::int64_t chunks);
};
// "1f1b": warm-up of min(p - r - 1, m) forwards, then one forward one backward, then the remaining backwards. At most
// min(p - r, m) microbatches in flight. "gpipe": all forwards, then all backwards. "interleaved": 1F1B over virtual
// stages, warm-up of min(2(p - r - 1) + (v - 1)p, m v) forwards.
std::span<const ScheduleEntry> schedule_table();
const ScheduleEntry* find_schedule(const std::string& name);
// The same microbatches with one more forward before the first backward, so that each backward after it can take turns
// with a forward of another microbatch (Megatron-Core's overlap of expert-parallel communication).
std::vector<Slot> one_forward_ahead(const std::vector<Slot>& slots);
// Most (microbatch, chunk) pairs whose forward has run and whose backward has not, at any time on that stage.
std::int64_t most_in_flight(const std::vector<Slot>& slots);

}  // namespace moeplan::schedule
