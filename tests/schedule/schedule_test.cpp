#include "schedule/schedule.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/check.h"

namespace moeplan::schedule {
namespace {

// "F0 F1 B0 ...": what a reader writes down by hand.
std::string text(const std::string& name, std::int64_t stage, std::int64_t stages, std::int64_t microbatches,
                 std::int64_t chunks = 1) {
  std::string out;
  for (const Slot& slot : find_schedule(name)->slots(stage, stages, microbatches, chunks)) {
    if (!out.empty()) out += ' ';
    out += slot.direction == Direction::forward ? 'F' : 'B';
    out += std::to_string(slot.microbatch);
    if (chunks > 1) out += static_cast<char>('a' + slot.chunk);
  }
  return out;
}

}  // namespace

TEST_CASE("1f1b: four stages, eight microbatches, every stage by hand") {
  // Warm-up of stage r: 3 - r forwards.
  CHECK(text("1f1b", 0, 4, 8) == "F0 F1 F2 F3 B0 F4 B1 F5 B2 F6 B3 F7 B4 B5 B6 B7");
  CHECK(text("1f1b", 1, 4, 8) == "F0 F1 F2 B0 F3 B1 F4 B2 F5 B3 F6 B4 F7 B5 B6 B7");
  CHECK(text("1f1b", 2, 4, 8) == "F0 F1 B0 F2 B1 F3 B2 F4 B3 F5 B4 F6 B5 F7 B6 B7");
  CHECK(text("1f1b", 3, 4, 8) == "F0 B0 F1 B1 F2 B2 F3 B3 F4 B4 F5 B5 F6 B6 F7 B7");
}

TEST_CASE("1f1b: with fewer microbatches than stages the warm-up stops at the last microbatch") {
  // Stage 0 of 4 would warm up with 3, but there are only 2: all forwards, then all backwards.
  CHECK(text("1f1b", 0, 4, 2) == "F0 F1 B0 B1");
  CHECK(text("1f1b", 1, 4, 2) == "F0 F1 B0 B1");  // warm-up 2 = microbatches: no steady phase
  CHECK(text("1f1b", 2, 4, 2) == "F0 F1 B0 B1");  // warm-up 1, then one pair F1 B0
  CHECK(text("1f1b", 3, 4, 2) == "F0 B0 F1 B1");
  CHECK(text("1f1b", 0, 4, 3) == "F0 F1 F2 B0 B1 B2");  // warm-up 3 = microbatches
  CHECK(text("1f1b", 0, 4, 4) == "F0 F1 F2 F3 B0 B1 B2 B3");
  CHECK(text("1f1b", 0, 1, 1) == "F0 B0");
}

TEST_CASE("gpipe: all forwards, then all backwards, on every stage") {
  for (std::int64_t stage = 0; stage < 4; ++stage) CHECK(text("gpipe", stage, 4, 3) == "F0 F1 F2 B0 B1 B2");
}

TEST_CASE("every schedule of whole backwards visits each microbatch once forward and later once backward, in order") {
  for (const ScheduleEntry& entry : schedule_table()) {
    if (entry.splits) continue;  // split_schedules_test.cpp
    for (std::int64_t stages = 1; stages <= 6; ++stages) {
      for (std::int64_t stage = 0; stage < stages; ++stage) {
        for (std::int64_t microbatches = 1; microbatches <= 9; ++microbatches) {
          if (entry.interleaves && microbatches % stages != 0) continue;
          CAPTURE(entry.name);
          CAPTURE(stage);
          CAPTURE(stages);
          CAPTURE(microbatches);
          std::int64_t forward = 0;
          std::int64_t backward = 0;
          for (const Slot& slot : entry.slots(stage, stages, microbatches, 1)) {
            std::int64_t& next = slot.direction == Direction::forward ? forward : backward;
            REQUIRE(slot.microbatch == next);
            REQUIRE(slot.chunk == 0);
            ++next;
            REQUIRE(backward <= forward);
          }
          REQUIRE(forward == microbatches);
          REQUIRE(backward == microbatches);
        }
      }
    }
  }
}

TEST_CASE("microbatches in flight: 1f1b holds min(p - r, m), gpipe holds m") {
  for (std::int64_t stages = 1; stages <= 6; ++stages) {
    for (std::int64_t stage = 0; stage < stages; ++stage) {
      for (std::int64_t microbatches = 1; microbatches <= 9; ++microbatches) {
        CHECK(most_in_flight(find_schedule("1f1b")->slots(stage, stages, microbatches, 1)) ==
              std::min(stages - stage, microbatches));
        CHECK(most_in_flight(find_schedule("gpipe")->slots(stage, stages, microbatches, 1)) == microbatches);
      }
    }
  }
}

TEST_CASE("schedules are found by their exact name") {
  REQUIRE(find_schedule("1f1b") != nullptr);
  CHECK(find_schedule("1f1b")->name == "1f1b");
  CHECK(find_schedule("gpipe")->name == "gpipe");
  CHECK(find_schedule("1F1B") == nullptr);
  CHECK(find_schedule("") == nullptr);
}

TEST_CASE("a stage outside the pipeline or a step without microbatches is an error of the program") {
  for (const ScheduleEntry& entry : schedule_table()) {
    CHECK_THROWS_AS(entry.slots(4, 4, 8, 1), base::InternalError);
    CHECK_THROWS_AS(entry.slots(-1, 4, 8, 1), base::InternalError);
    CHECK_THROWS_AS(entry.slots(0, 4, 0, 1), base::InternalError);
    CHECK_NOTHROW(entry.slots(3, 4, entry.interleaves ? 4 : 8, std::max<std::int64_t>(1, entry.fixed_chunks())));
  }
}

TEST_CASE("interleaved: two stages, two virtual stages, four microbatches, by hand") {
  // Groups of two microbatches run through chunk a, then b; backward through b, then a. Warm-up 2(p - r - 1) + (v -
  // 1)p: 4 and 2.
  CHECK(text("interleaved", 0, 2, 4, 2) == "F0a F1a F0b F1b F2a B0b F3a B1b F2b B0a F3b B1a B2b B3b B2a B3a");
  CHECK(text("interleaved", 1, 2, 4, 2) == "F0a F1a F0b B0b F1b B1b F2a B0a F3a B1a F2b B2b F3b B3b B2a B3a");
}

TEST_CASE("interleaved visits every chunk of every microbatch once each way, and holds what MemFine's m_g says") {
  for (std::int64_t stages : {1, 2, 4})
    for (std::int64_t stage = 0; stage < stages; ++stage)
      for (std::int64_t chunks : {2, 3}) {
        const std::int64_t microbatches = 4 * stages;
        const auto slots = find_schedule("interleaved")->slots(stage, stages, microbatches, chunks);
        std::vector<int> state(static_cast<std::size_t>(microbatches * chunks), 0);
        for (const Slot& slot : slots) {
          int& s = state[static_cast<std::size_t>(slot.microbatch * chunks + slot.chunk)];
          REQUIRE(s == (slot.direction == Direction::forward ? 0 : 1));
          ++s;
        }
        CHECK(std::all_of(state.begin(), state.end(), [](int s) { return s == 2; }));
        // v p + p - 2 r - 1, unless the step is shorter.
        CHECK(most_in_flight(slots) == std::min(chunks * stages + stages - 2 * stage - 1, microbatches * chunks));
      }
}

}  // namespace moeplan::schedule
