#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "base/check.h"
#include "schedule/schedule.h"
#include "schedule/timetable.h"

// Schedules whose backward leaves weight gradients for later. F: forward, B: backward with its weight gradients, b:
// without them, W: those.
namespace moeplan::schedule {
namespace {

std::string slots_text(const std::string& name, std::int64_t stage, std::int64_t stages, std::int64_t microbatches) {
  const ScheduleEntry& entry = *find_schedule(name);
  const std::int64_t chunks = std::max<std::int64_t>(1, entry.fixed_chunks());
  std::string out;
  bool joined = false;
  for (const Slot& slot : entry.slots(stage, stages, microbatches, chunks)) {
    if (!out.empty()) out += joined ? '+' : ' ';
    joined = slot.takes_turns;
    out += slot.direction == Direction::forward ? 'F' : slot.direction == Direction::weights ? 'W' : "Bb"[slot.split];
    out += std::to_string(slot.microbatch);
    if (chunks > 1) out += static_cast<char>('a' + slot.chunk);
  }
  return out;
}

test::Timetable run(const std::string& name, std::int64_t ranks, std::int64_t microbatches,
                    const test::SlotTimes& times = {}) {
  const ScheduleEntry& entry = *find_schedule(name);
  return test::timetable(entry, ranks, microbatches, std::max<std::int64_t>(1, entry.fixed_chunks()), times);
}

// Idle time of the rank that idles most.
double bubble(const test::Timetable& table) {
  return table.makespan - *std::min_element(table.busy.begin(), table.busy.end());
}

std::int64_t in_flight(const std::string& name, std::int64_t stage, std::int64_t stages, std::int64_t microbatches) {
  const ScheduleEntry& entry = *find_schedule(name);
  return most_in_flight(entry.slots(stage, stages, microbatches, std::max<std::int64_t>(1, entry.fixed_chunks())));
}

// Times whose sums are exact. B of the published formulas is the whole backward: input and weight gradients.
const std::vector<test::SlotTimes> kTimes = {{1, 1, 1, 0}, {2, 2, 1, 0}, {4, 5, 3, 0}, {3, 4, 2, 0}};

}  // namespace

TEST_CASE("zb_h1: two stages, three microbatches, by hand") {
  // Rank 0: 1F1B with each W behind its b. Rank 1: weights lag by one backward, and are left over at the end.
  CHECK(slots_text("zb_h1", 0, 2, 3) == "F0 F1 b0 W0 F2 b1 W1 b2 W2");
  CHECK(slots_text("zb_h1", 1, 2, 3) == "F0 b0 F1 b1 W0 F2 b2 W1 W2");
  CHECK(slots_text("zb_h1", 0, 1, 2) == "F0 b0 W0 F1 b1 W1");
}

TEST_CASE("zb_v: two ranks, three microbatches, by hand, and with two the third is left out") {
  // Rank 0 has the first stage (a) and the last (b), rank 1 the two in between.
  CHECK(slots_text("zb_v", 0, 2, 3) == "F0a F1a F2a F0b b0b W0b F1b b1b W1b b0a W0a F2b b2b W2b b1a W1a b2a W2a");
  CHECK(slots_text("zb_v", 1, 2, 3) == "F0a F0b F1a F1b b0b W0b F2a b0a W0a F2b b1b W1b b1a b2b b2a W1a W2b W2a");
  CHECK(slots_text("zb_v", 0, 2, 2) == "F0a F1a F0b b0b W0b F1b b1b W1b b0a W0a b1a W1a");
  CHECK(slots_text("zb_v", 1, 2, 2) == "F0a F0b F1a F1b b0b W0b b0a W0a b1b W1b b1a W1a");
}

TEST_CASE("dualpipe: two ranks, four microbatches, by hand") {
  // Rank 0 is the first stage of microbatches 0 and 1 (a) and the last of 2 and 3 (b), rank 1 the other way round.
  CHECK(slots_text("dualpipe", 0, 2, 4) == "F0a F2b F1a B2b F3b+B0a B3b b1a W1a");
  CHECK(slots_text("dualpipe", 1, 2, 4) == "F2b F0a F3b B0a F1a+B2b B1a b3b W3b");
}

TEST_CASE("dualpipe_v is dualpipe's near half with the same microbatches in both chunks") {
  // One rank: the middle of a pipeline of two.
  CHECK(slots_text("dualpipe_v", 0, 1, 2) == "F0a F0b F1a B0b F1b+B0a B1b b1a W1a");
  // Two ranks, four microbatches: rank 0 of four of dualpipe with eight, whose far microbatches are 4 .. 7.
  std::string far = slots_text("dualpipe", 0, 4, 8);
  for (std::size_t i = 1; i + 1 < far.size(); ++i)
    if ('4' <= far[i] && far[i] <= '9' && far[i + 1] == 'b') far[i] = static_cast<char>(far[i] - 4);
  CHECK(slots_text("dualpipe_v", 0, 2, 4) == far);
}

TEST_CASE("bubble of 1f1b and gpipe: (p - 1)(F + B)") {
  for (const test::SlotTimes& t : kTimes)
    for (std::int64_t p : {1, 2, 3, 4, 8})
      for (std::int64_t m : {p, p + 1, 3 * p}) {
        const double expected = static_cast<double>(p - 1) * (t.forward + t.input_gradient + t.weight_gradient);
        CHECK(bubble(run("1f1b", p, m, t)) == expected);
        CHECK(bubble(run("gpipe", p, m, t)) == expected);
      }
}

TEST_CASE("bubble of interleaved: (p - 1)(F + B) of one chunk, so of a rank's v chunks the v-th part") {
  const ScheduleEntry& entry = *find_schedule("interleaved");
  for (const test::SlotTimes& t : kTimes)
    for (std::int64_t p : {2, 3, 4, 8})
      for (std::int64_t v : {2, 3})
        for (std::int64_t m : {p, 2 * p, 4 * p})
          CHECK(bubble(test::timetable(entry, p, m, v, t)) ==
                static_cast<double>(p - 1) * (t.forward + t.input_gradient + t.weight_gradient));
}

TEST_CASE("bubble of zb_h1: (p - 1)(F + B - 2W), a third of 1f1b's when F, b and W take the same") {
  for (const test::SlotTimes& t : kTimes)
    for (std::int64_t p : {1, 2, 3, 4, 8})
      for (std::int64_t m : {p, p + 1, 3 * p}) {
        const double whole = t.input_gradient + t.weight_gradient;
        CHECK(bubble(run("zb_h1", p, m, t)) ==
              static_cast<double>(p - 1) * (t.forward + whole - 2 * t.weight_gradient));
      }
  CHECK(3 * bubble(run("zb_h1", 8, 24)) == bubble(run("1f1b", 8, 24)));
}

TEST_CASE("bubble of zb_v: none between a rank's first and last slot when F, b and W take the same") {
  for (std::int64_t p : {2, 3, 4, 8})
    for (std::int64_t m : {2 * p - 1, 2 * p, 4 * p}) {
      const test::Timetable table = run("zb_v", p, m);
      for (std::size_t r = 0; r < table.busy.size(); ++r) {
        CHECK(table.busy[r] == static_cast<double>(6 * m));  // two chunks of F, b and W
        CHECK(table.end[r] - table.begin[r] == table.busy[r]);
        CHECK(table.begin[r] == static_cast<double>(r));  // what is left: rank r starts r forwards later
      }
    }
  // One microbatch less than fills the V leaves a gap.
  const test::Timetable short_step = run("zb_v", 4, 6);
  double longest = 0;
  for (std::size_t r = 0; r < short_step.busy.size(); ++r)
    longest = std::max(longest, short_step.end[r] - short_step.begin[r]);
  CHECK(longest > 36.0);
}

TEST_CASE("bubble of dualpipe: (p / 2 - 1)(F&B + B - 3W), F&B a forward and a backward that take turns") {
  for (std::int64_t p : {2, 4, 6, 8})
    for (std::int64_t m : {2 * p, 2 * p + 2, 5 * p}) {
      // Nothing hidden: F&B = F + B. Unit times: (p / 2 - 1)(3 + 2 - 3).
      CHECK(bubble(run("dualpipe", p, m)) == static_cast<double>((p / 2 - 1) * 2));
      // F = 2, b = 2, W = 1: (p / 2 - 1)(5 + 3 - 3).
      CHECK(bubble(run("dualpipe", p, m, {2, 2, 1, 0})) == static_cast<double>((p / 2 - 1) * 5));
      // Half of the shorter of the two hidden: F&B = 2.5, so (p / 2 - 1)(2.5 + 2 - 3).
      CHECK(bubble(run("dualpipe", p, m, {1, 1, 1, 2.5})) == static_cast<double>(p / 2 - 1) * 1.5);
    }
}

TEST_CASE("bubble of dualpipe_v: the same of its 2p stages, on p ranks") {
  for (std::int64_t p : {1, 2, 3, 4})
    for (std::int64_t m : {2 * p, 2 * p + 1, 5 * p}) {
      CHECK(bubble(run("dualpipe_v", p, m)) == static_cast<double>((p - 1) * 2));
      CHECK(bubble(run("dualpipe_v", p, m, {2, 2, 1, 0})) == static_cast<double>((p - 1) * 5));
      CHECK(bubble(run("dualpipe_v", p, m, {1, 1, 1, 2.5})) == static_cast<double>(p - 1) * 1.5);
    }
}

TEST_CASE("activations in flight: zb_h1 p on every rank, zb_v 2p chunks, dualpipe p + 1, dualpipe_v 2p + 1") {
  for (std::int64_t p : {2, 4, 6, 8})
    for (std::int64_t stage = 0; stage < p; ++stage) {
      const std::int64_t m = 3 * p;
      CHECK(in_flight("zb_h1", stage, p, m) == p);  // 1f1b's first rank
      CHECK(in_flight("zb_v", stage, p, m) == 2 * p);
      CHECK(in_flight("dualpipe", stage, p, m) == p + 1);
      CHECK(in_flight("dualpipe_v", stage, p, m) == 2 * p + 1);
    }
  // A step of fewer microbatches holds what it has.
  for (std::int64_t stage = 0; stage < 4; ++stage) {
    CHECK(in_flight("zb_h1", stage, 4, 3) == 3);
    CHECK(in_flight("zb_h1", stage, 4, 4) == 4);
    CHECK(in_flight("zb_v", stage, 4, 7) == 8);  // 2p - 1 fill the V
  }
  CHECK(in_flight("zb_v", 0, 4, 6) == 7);
}

TEST_CASE("every microbatch runs forward, backward, weights in order, and no rank waits for ever") {
  for (const ScheduleEntry& entry : schedule_table()) {
    if (!entry.splits) continue;
    for (std::int64_t p = entry.even ? 2 : 1; p <= 9; p += entry.even ? 2 : 1) {
      const std::int64_t least = std::max<std::int64_t>(1, entry.least_per_stage * p);
      for (std::int64_t m = least; m <= least + 21; m += entry.even ? 2 : 1) {
        CAPTURE(entry.name);
        CAPTURE(p);
        CAPTURE(m);
        REQUIRE(run(entry.name, p, m).complete);
        const std::int64_t chunks = std::max<std::int64_t>(1, entry.fixed_chunks());
        for (std::int64_t stage = 0; stage < p; ++stage) {
          // 0: not run, 1: forward, 2: input gradients, 3: all.
          std::vector<int> state(static_cast<std::size_t>(chunks * m), 0);
          for (const Slot& slot : entry.slots(stage, p, m, chunks)) {
            REQUIRE((0 <= slot.microbatch && slot.microbatch < m));
            int& at = state[static_cast<std::size_t>(slot.chunk * m + slot.microbatch)];
            REQUIRE(at == static_cast<int>(slot.direction));
            at = slot.direction == Direction::backward && !slot.split ? 3 : at + 1;
          }
          // Mirrored chunks have half of the microbatches each.
          const auto whole = std::count(state.begin(), state.end(), 3),
                     none = std::count(state.begin(), state.end(), 0);
          REQUIRE(whole == (entry.placement == Placement::mirrored ? m : chunks * m));
          REQUIRE(none == static_cast<std::int64_t>(state.size()) - whole);
        }
      }
    }
  }
}

TEST_CASE("no rank waits for ever whatever the slots take") {
  for (const ScheduleEntry& entry : schedule_table()) {
    if (!entry.splits) continue;
    std::uint64_t seed = 7;
    const auto draw = [&](std::int64_t below) {  // a linear congruential generator: the same numbers everywhere
      seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
      return static_cast<std::int64_t>((seed >> 33) % static_cast<std::uint64_t>(below));
    };
    for (int trial = 0; trial < 60; ++trial) {
      const std::int64_t p = entry.even ? 2 + 2 * draw(8) : 1 + draw(16);
      std::int64_t m = std::max<std::int64_t>(1, entry.least_per_stage * p) + draw(40);
      if (entry.even) m += m % 2;
      const auto length = [&] { return static_cast<double>(1 + draw(9)); };
      const test::SlotTimes times{length(), length(), length(), draw(2) == 0 ? 0 : length()};
      CAPTURE(entry.name);
      CAPTURE(p);
      CAPTURE(m);
      const test::Timetable table = run(entry.name, p, m, times);
      REQUIRE(table.complete);
      REQUIRE(bubble(table) >= 0);
    }
  }
}

TEST_CASE("numbers that a schedule does not take are an error of the program, those beside them are not") {
  CHECK_THROWS_AS(find_schedule("dualpipe")->slots(0, 3, 12, 2), base::InternalError);  // an odd pipeline
  CHECK_THROWS_AS(find_schedule("dualpipe")->slots(0, 4, 6, 2), base::InternalError);   // 2p = 8
  CHECK_THROWS_AS(find_schedule("dualpipe")->slots(0, 4, 9, 2), base::InternalError);   // odd
  CHECK_NOTHROW(find_schedule("dualpipe")->slots(0, 4, 8, 2));
  CHECK_THROWS_AS(find_schedule("dualpipe_v")->slots(0, 4, 7, 2), base::InternalError);
  CHECK_NOTHROW(find_schedule("dualpipe_v")->slots(0, 4, 8, 2));
  CHECK_NOTHROW(find_schedule("dualpipe_v")->slots(0, 4, 9, 2));
  CHECK_THROWS_AS(find_schedule("zb_v")->slots(0, 4, 8, 1), base::InternalError);  // two chunks make the V
  CHECK_THROWS_AS(find_schedule("zb_h1")->slots(0, 4, 8, 2), base::InternalError);
}

}  // namespace moeplan::schedule
