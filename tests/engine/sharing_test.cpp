#include <doctest/doctest.h>

#include "base/check.h"
#include "engine/engine.h"
#include "program_in_memory.h"

namespace moeplan::engine {
namespace {

TimedOp computes(std::int64_t duration_ps, int out_of) {
  TimedOp op = work(0, duration_ps);
  op.out_of = static_cast<std::int16_t>(out_of);
  return op;
}
TimedOp holding(TimedOp op, int multiprocessors) {
  op.holds = static_cast<std::int16_t>(multiprocessors);
  return op;
}

// Both evaluations, which must agree.
Outcome both(const Program& program) {
  Outcome fast = max_plus(program);
  REQUIRE(equal(fast, events(program)));
  return fast;
}

}  // namespace

TEST_CASE("computation goes on slower while an op before it holds multiprocessors, and no longer") {
  // 30 of work on 4; 1 is held over [0, 20): 20 * 3/4 = 15 are done by then, 15 are left: ends at 35.
  Program program;
  program.ranks = {{holding(work(1, 20), 1), computes(30, 4)}};
  CHECK(both(program).times[0][1].end_ps == 35);
  // Held to the end: 30 * 4/3 = 40.
  program.ranks = {{holding(work(1, 40), 1), computes(30, 4)}};
  CHECK(both(program).times[0][1].end_ps == 40);
  program.ranks = {{holding(work(1, 39), 1), computes(30, 4)}};  // 117 of 120 done; the last 3 take one: rounded up
  CHECK(both(program).times[0][1].end_ps == 40);
  // What shares none is not slowed down.
  program.ranks = {{holding(work(1, 20), 1), work(0, 30)}};
  CHECK(both(program).times[0][1].end_ps == 30);
}

TEST_CASE("ops on several streams hold multiprocessors together, and one is always left") {
  // [0, 10): 1 + 2 of 4 held, 10 of 80 done; [10, 20): 2 held, 20 done; 50 left at 4: 12.5, rounded up.
  Program program;
  program.ranks = {{holding(work(1, 10), 1), holding(work(2, 20), 2), computes(20, 4)}};
  CHECK(both(program).times[0][2].end_ps == 33);
  // 5 of 4 held: one is left: 20 * 4 = 80.
  program.ranks = {{holding(work(1, 100), 3), holding(work(2, 100), 2), computes(20, 4)}};
  CHECK(both(program).times[0][2].end_ps == 80);
}

TEST_CASE("a collective holds its multiprocessors while it waits for the others") {
  // Rank 0 is ready at 0, rank 1 at 12; both take 8. Rank 0 computes beside [0, 20): 20 of 40 done, 20 left at 2: 30.
  Program program;
  program.ranks = {{holding(meet(1, 5, 2), 1), computes(20, 2)}, {work(0, 12), after(holding(meet(1, 5, 2), 1), 0)}};
  program.met_ps = {{{5, 0}, 8}, {{5, 1}, 8}};
  const Outcome outcome = both(program);
  CHECK(outcome.times[0][0].end_ps == 20);
  CHECK(outcome.times[0][1].end_ps == 30);
}

TEST_CASE("an op behind the computation in the program does not slow it down") {
  Program program;
  program.ranks = {{computes(20, 2), holding(work(1, 10), 1)}};
  CHECK(both(program).times[0][0].end_ps == 20);
}

TEST_CASE("computation ends beside a collective that another rank reaches only because of it") {
  // Rank 0 starts collective 7 and computes 20 on one of 2 multiprocessors: 40; then meets rank 1 at key 8, behind
  // which rank 1 reaches key 7, at 40 + 3.
  Program program;
  program.ranks = {{holding(meet(1, 7, 2), 1), computes(20, 2), after(meet(2, 8, 2), 0)},
                   {meet(2, 8, 2), after(holding(meet(1, 7, 2), 1), 2)}};
  program.met_ps = {{{7, 0}, 5}, {{7, 1}, 5}, {{8, 0}, 3}, {{8, 1}, 3}};
  const Outcome outcome = both(program);
  CHECK(outcome.times[0][1].end_ps == 40);
  CHECK(outcome.times[0][0].end_ps == 48);
}

TEST_CASE("the longest op on the most multiprocessors is counted without overflow") {
  Program program;
  program.ranks = {{holding(work(1, 1), 1023), computes(9'000'000'000'000'000, kMostMultiprocessors)}};
  // One of the 1024 goes on for 1 ps, so that 1023/1024 ps are lost; rounded up.
  CHECK(both(program).times[0][1].end_ps == 9'000'000'000'000'001);
}

TEST_CASE("more multiprocessors than can be counted, or computation on another stream, are errors of ours") {
  Program program;
  program.ranks = {{computes(1, kMostMultiprocessors + 1)}};
  CHECK_THROWS_AS(max_plus(program), base::InternalError);
  TimedOp elsewhere = computes(1, 4);
  elsewhere.stream = 1;
  program.ranks = {{elsewhere}};
  CHECK_THROWS_AS(max_plus(program), base::InternalError);
}

}  // namespace moeplan::engine
