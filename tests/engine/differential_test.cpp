#include <doctest/doctest.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "base/random.h"
#include "engine/engine.h"
#include "program_in_memory.h"
#include "random_program.h"

// Properties over random programs; a failure names the seed.
namespace moeplan::engine {
namespace {

constexpr std::uint64_t kPrograms = 600;

// The duration that an op has in a program, with or without rendezvous.
std::int64_t duration_of(const Program& program, std::size_t rank, std::size_t op) {
  const TimedOp& timed = program.ranks[rank][op];
  if (timed.rendezvous < 0) return timed.duration_ps;
  return program.met_ps.at({timed.rendezvous, static_cast<std::int64_t>(rank)});
}

// Longest chain over the streams of one rank as if nobody ever waited for a host or for another rank: a lower bound.
std::int64_t longest_chain_ps(const Program& program, std::size_t rank) {
  std::vector<std::int64_t> end_ps(kMaxStreams, 0);
  for (std::size_t i = 0; i < program.ranks[rank].size(); ++i) {
    const TimedOp& op = program.ranks[rank][i];
    std::int64_t start_ps = end_ps[op.stream];
    for (std::size_t s = 0; s < kMaxStreams; ++s) {
      if ((op.wait_streams >> s & 1) != 0) start_ps = std::max(start_ps, end_ps[s]);
    }
    end_ps[op.stream] = start_ps + duration_of(program, rank, i);
  }
  return *std::max_element(end_ps.begin(), end_ps.end());
}

}  // namespace

TEST_CASE("both evaluations report the same times, in the same order, for random programs") {
  std::size_t met = 0;
  for (std::uint64_t seed = 0; seed < kPrograms; ++seed) {
    CAPTURE(seed);
    const Program program = random_program(seed);
    const Outcome fast = max_plus(program);
    REQUIRE(equal(fast, events(program)));
    for (std::size_t r = 0; r < program.ranks.size(); ++r) REQUIRE(fast.times[r].size() == program.ranks[r].size());
    met += fast.asked.size();
  }
  CHECK(met > 10 * kPrograms);  // the programs do meet
}

TEST_CASE("both evaluations agree where computation shares multiprocessors, and it is slowed down at times") {
  std::int64_t slowed = 0;
  for (std::uint64_t seed = 0; seed < 4 * kPrograms; ++seed) {
    CAPTURE(seed);
    const Program program = random_shared_program(seed);
    const Outcome fast = max_plus(program);
    REQUIRE(equal(fast, events(program)));
    for (std::size_t r = 0; r < program.ranks.size(); ++r) {
      for (std::size_t i = 0; i < program.ranks[r].size(); ++i) {
        const OpTimes& times = fast.times[r][i];
        const std::int64_t longer_ps = times.end_ps - times.start_ps - duration_of(program, r, i);
        REQUIRE(longer_ps >= 0);
        if (program.ranks[r][i].out_of == 0) REQUIRE(longer_ps == 0);
        slowed += longer_ps > 0 ? 1 : 0;
      }
    }
  }
  CHECK(slowed > 10000);
}

TEST_CASE("the order in which ranks are stepped changes nothing") {
  for (std::uint64_t seed = 0; seed < 2 * kPrograms; ++seed) {
    CAPTURE(seed);
    const Program program = seed < kPrograms ? random_program(seed) : random_shared_program(seed);
    const Outcome plain = max_plus(program);
    std::vector<std::size_t> label = ProgramInMemory::identity(program.ranks.size());
    std::reverse(label.begin(), label.end());
    for (std::size_t turn = 0; turn < 3; ++turn) {
      ProgramInMemory source(program, label);
      RunResult result = run_max_plus(source);
      REQUIRE(source.ascending());
      REQUIRE(equal(plain, source.outcome(std::move(result))));
      std::next_permutation(label.begin() + 1, label.end());
      std::rotate(label.begin(), label.begin() + 1, label.end());
    }
  }
}

TEST_CASE("issued, ready, start and end of an op are in order, and ready is when host and streams allow it") {
  for (std::uint64_t seed = 0; seed < kPrograms; ++seed) {
    CAPTURE(seed);
    const Program program = random_program(seed);
    const Outcome outcome = max_plus(program);
    for (std::size_t r = 0; r < program.ranks.size(); ++r) {
      for (std::size_t i = 0; i < program.ranks[r].size(); ++i) {
        const OpTimes& times = outcome.times[r][i];
        REQUIRE(times.ready_ps == std::max(times.issued_ps, times.streams_ps));
        REQUIRE(times.start_ps >= times.ready_ps);
        REQUIRE(times.end_ps == times.start_ps + duration_of(program, r, i));
        if (program.ranks[r][i].rendezvous < 0) REQUIRE(times.start_ps == times.ready_ps);
      }
    }
  }
}

TEST_CASE("a rank takes no less than its busiest stream, its longest chain and the work of its host") {
  for (std::uint64_t seed = 0; seed < kPrograms; ++seed) {
    CAPTURE(seed);
    const Program program = random_program(seed);
    const Outcome outcome = max_plus(program);
    for (std::size_t r = 0; r < program.ranks.size(); ++r) {
      std::vector<std::int64_t> busy_ps(kMaxStreams, 0);
      std::int64_t host_ps = 0;
      for (std::size_t i = 0; i < program.ranks[r].size(); ++i) {
        const TimedOp& op = program.ranks[r][i];
        busy_ps[op.stream] += duration_of(program, r, i);
        host_ps += op.issue_ps + (op.host_sync ? op.sync_ps : 0);
      }
      const std::int64_t finish_ps = outcome.result.finish_ps[r];
      for (const std::int64_t busy : busy_ps) REQUIRE(finish_ps >= busy);
      REQUIRE(finish_ps >= longest_chain_ps(program, r));
      REQUIRE(finish_ps >= host_ps);
      REQUIRE(outcome.result.makespan_ps >= finish_ps);
    }
  }
}

TEST_CASE("shortening one op lengthens nothing") {
  const base::Random random(7);
  int shortened = 0;
  for (std::uint64_t seed = 0; seed < kPrograms; ++seed) {
    CAPTURE(seed);
    Program program = random_program(seed);
    const Outcome before = max_plus(program);
    const std::size_t r = random.bits(seed, 0) % program.ranks.size();
    if (program.ranks[r].empty()) continue;
    TimedOp& op = program.ranks[r][random.bits(seed, 1) % program.ranks[r].size()];
    std::int64_t& duration_ps =
        op.rendezvous < 0 ? op.duration_ps : program.met_ps.at({op.rendezvous, static_cast<std::int64_t>(r)});
    if (duration_ps > 0) ++shortened;
    duration_ps /= 2;
    const Outcome after_ = max_plus(program);
    for (std::size_t q = 0; q < program.ranks.size(); ++q) {
      for (std::size_t i = 0; i < program.ranks[q].size(); ++i) {
        REQUIRE(after_.times[q][i].start_ps <= before.times[q][i].start_ps);
        REQUIRE(after_.times[q][i].end_ps <= before.times[q][i].end_ps);
      }
      REQUIRE(after_.result.finish_ps[q] <= before.result.finish_ps[q]);
    }
  }
  CHECK(shortened > 300);
}

TEST_CASE("a rendezvous of thousands: all start with the last, durations asked once by ascending rank") {
  // Rank r works r ps, meets (takes 4096 - r), meets again. First start: 4095; second: all end at 4095 + 4096 - r,
  // so the last arrives at 8191.
  constexpr std::int64_t kRanks = 4096;
  Program program;
  for (std::int64_t r = 0; r < kRanks; ++r) {
    program.ranks.push_back({work(0, r), meet(0, 1, kRanks), meet(0, 2, kRanks)});
    program.met_ps[{1, r}] = kRanks - r;
    program.met_ps[{2, r}] = 1;
  }
  const Outcome outcome = max_plus(program);
  for (std::size_t r = 0; r < kRanks; ++r) {
    REQUIRE(outcome.times[r][1].start_ps == 4095);
    REQUIRE(outcome.times[r][2].start_ps == 8191);
  }
  CHECK(outcome.asked.size() == 2);
  CHECK(equal(outcome, events(program)));
}

}  // namespace moeplan::engine
