#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

// Pipeline schedules: the order in which one stage visits microbatches.
namespace moeplan::schedule {

// weights: the weight gradients of a backward that left them for later (Slot::split).
enum class Direction : std::uint8_t { forward, backward, weights };

struct Slot {
  Direction direction = Direction::forward;
  std::int64_t microbatch = 0;
  std::int64_t chunk = 0;    // which of the stages on this rank; 0 where it has one
  bool takes_turns = false;  // a forward that may take turns with the backward behind it
  bool split = false;        // a backward that computes input gradients alone; its weights come in a slot of their own
};

// Which stages a rank holds, p ranks, stages numbered in model order. looped: chunk v of rank r is stage v p + r.
// v_shape: two chunks, stages r and 2p - 1 - r, so that rank 0 has the first and the last. mirrored: p stages, each on
// two ranks: rank r has r and p - 1 - r, the second for microbatches that run from the last rank to the first.
enum class Placement : std::uint8_t { looped, v_shape, mirrored };

// A schedule is a pure function of stage (rank), stages (ranks), microbatches and chunks (stages that a rank holds).
struct ScheduleEntry {
  std::string name;
  std::string description;
  bool interleaves;  // takes more than one chunk, and needs microbatches in multiples of the stages
  std::vector<Slot> (*slots)(std::int64_t stage, std::int64_t stages, std::int64_t microbatches, std::int64_t chunks);
  Placement placement = Placement::looped;
  bool splits = false;               // has backwards without their weight gradients
  bool even = false;                 // stages and microbatches in pairs
  std::int64_t least_per_stage = 0;  // microbatches, at least so many times the stages
  // Chunks of a rank where the placement fixes them, else 0.
  std::int64_t fixed_chunks() const { return placement == Placement::looped ? 0 : 2; }
};
// "1f1b": warm-up of min(p - r - 1, m) forwards, then one forward one backward, then the remaining backwards. At most
// min(p - r, m) microbatches in flight. "gpipe": all forwards, then all backwards. "interleaved": 1F1B over virtual
// stages, warm-up of min(2(p - r - 1) + (v - 1)p, m v) forwards. "zb_h1", "zb_v", "dualpipe", "dualpipe_v": slots.h.
std::span<const ScheduleEntry> schedule_table();
const ScheduleEntry* find_schedule(const std::string& name);
// The same microbatches with one more forward before the first backward, so that each backward after it can take turns
// with a forward of another microbatch (Megatron-Core's overlap of expert-parallel communication).
std::vector<Slot> one_forward_ahead(const std::vector<Slot>& slots);
// Most (microbatch, chunk) pairs whose forward has run and whose backward, weight gradients included, has not, at any
// time on that stage.
std::int64_t most_in_flight(const std::vector<Slot>& slots);

}  // namespace moeplan::schedule
