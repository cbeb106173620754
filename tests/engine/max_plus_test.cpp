#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "base/check.h"
#include "engine/engine.h"
#include "program_in_memory.h"

// Programs small enough to work out by hand; both evaluations must give the derived times.
namespace moeplan::engine {
namespace {

struct Evaluation {
  const char* name;
  Outcome (*run)(const Program&);
};
constexpr Evaluation kEvaluations[] = {{"max_plus", &max_plus}, {"events", &events}};

void check_times(const OpTimes& times, std::int64_t issued, std::int64_t streams, std::int64_t ready,
                 std::int64_t start, std::int64_t end) {
  CHECK(times.issued_ps == issued);
  CHECK(times.streams_ps == streams);
  CHECK(times.ready_ps == ready);
  CHECK(times.start_ps == start);
  CHECK(times.end_ps == end);
}

std::string error_of(const Evaluation& evaluation, const Program& program) {
  try {
    evaluation.run(program);
  } catch (const base::InternalError& error) {
    return error.what();
  }
  return "no error";
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("no ranks and empty programs take no time") {
  for (const Evaluation& evaluation : kEvaluations) {
    CAPTURE(evaluation.name);
    CHECK(evaluation.run({}).result.makespan_ps == 0);
    const Outcome outcome = evaluation.run({{{}, {work(0, 5)}}, {}});
    CHECK(outcome.result.finish_ps == std::vector<std::int64_t>{0, 5});
    CHECK(outcome.result.ops == 1);
  }
}

TEST_CASE("host-bound: short ops start when they are issued") {
  for (const Evaluation& evaluation : kEvaluations) {
    CAPTURE(evaluation.name);
    // Issued at 10, 20, 30; each has ended (3 ps) before the next is issued.
    const TimedOp op = issued_in(work(0, 3), 10);
    const Outcome outcome = evaluation.run({{{op, op, op}}, {}});
    check_times(outcome.times[0][0], 10, 0, 10, 10, 13);
    check_times(outcome.times[0][1], 20, 13, 20, 20, 23);
    check_times(outcome.times[0][2], 30, 23, 30, 30, 33);
    CHECK(outcome.result.makespan_ps == 33);
  }
}

TEST_CASE("device-bound: long ops queue on their stream while the host runs ahead") {
  for (const Evaluation& evaluation : kEvaluations) {
    CAPTURE(evaluation.name);
    // Issued at 1, 2, 3; the stream is busy 1-11, 11-21, 21-31.
    const TimedOp op = issued_in(work(0, 10), 1);
    const Outcome outcome = evaluation.run({{{op, op, op}}, {}});
    check_times(outcome.times[0][0], 1, 0, 1, 1, 11);
    check_times(outcome.times[0][1], 2, 11, 11, 11, 21);
    check_times(outcome.times[0][2], 3, 21, 21, 21, 31);
  }
}

TEST_CASE("the host may finish last") {
  for (const Evaluation& evaluation : kEvaluations) {
    CAPTURE(evaluation.name);
    // The op ends at 2 + 3 = 5, the host has then 4 ps of work to see it: 9.
    const Outcome outcome = evaluation.run({{{synced(issued_in(work(0, 3), 2), 4)}}, {}});
    CHECK(outcome.result.finish_ps == std::vector<std::int64_t>{9});
  }
}

TEST_CASE("two streams overlap, and a wait orders them from then on") {
  for (const Evaluation& evaluation : kEvaluations) {
    CAPTURE(evaluation.name);
    // Stream 0: 0-10. Stream 1: 0-4 next to it, then an op after stream 0: 10-12.
    // The last op of stream 0 waits for stream 1: it starts at 12, not at 10. Stream 2 holds nothing: waiting is free.
    const Outcome outcome = evaluation.run(
        {{{work(0, 10), work(1, 4), after(work(1, 2), 0), after(work(0, 5), 1), after(work(3, 1), 2)}}, {}});
    check_times(outcome.times[0][1], 0, 0, 0, 0, 4);
    check_times(outcome.times[0][2], 0, 10, 10, 10, 12);
    check_times(outcome.times[0][3], 0, 12, 12, 12, 17);
    check_times(outcome.times[0][4], 0, 0, 0, 0, 1);
    CHECK(outcome.result.makespan_ps == 17);
  }
}

TEST_CASE("a wait counts only the ops before it") {
  for (const Evaluation& evaluation : kEvaluations) {
    CAPTURE(evaluation.name);
    // The op of 100 ps on stream 1 comes later in the program: stream 0 waits for the first one (7) only.
    const Outcome outcome = evaluation.run({{{work(1, 7), after(work(0, 1), 1), work(1, 100)}}, {}});
    check_times(outcome.times[0][1], 0, 7, 7, 7, 8);
    check_times(outcome.times[0][2], 0, 7, 7, 7, 107);
  }
}

TEST_CASE("a host sync stalls the host, so the device runs dry") {
  for (const Evaluation& evaluation : kEvaluations) {
    CAPTURE(evaluation.name);
    // Issue 2 each. First op: issued 2, ends 12. Sync costs 5: host at 17. Second: issued 19, stream free since 12.
    const TimedOp op = issued_in(work(0, 10), 2);
    const Outcome outcome = evaluation.run({{{synced(op, 5), op}}, {}});
    check_times(outcome.times[0][0], 2, 0, 2, 2, 12);
    check_times(outcome.times[0][1], 19, 12, 19, 19, 29);
  }
}

TEST_CASE("a host sync waits for its own op, not for other streams") {
  for (const Evaluation& evaluation : kEvaluations) {
    CAPTURE(evaluation.name);
    // Stream 0 is busy until 50; the synced copy on stream 1 ends at 3, the next issue is done at 4.
    const Outcome outcome = evaluation.run({{{work(0, 50), synced(work(1, 3), 0), issued_in(work(2, 1), 1)}}, {}});
    check_times(outcome.times[0][2], 4, 0, 4, 4, 5);
    CHECK(outcome.result.makespan_ps == 50);
  }
}

TEST_CASE("a collective starts with its last member and may take each member a different time") {
  for (const Evaluation& evaluation : kEvaluations) {
    CAPTURE(evaluation.name);
    // Compute of 10, 30, 20 on ranks 0, 1, 2: all start at 30. Durations 1, 2, 3: ends 31, 32, 33, then 5 more each.
    Program program;
    for (const std::int64_t duration : {10, 30, 20}) {
      program.ranks.push_back({work(0, duration), meet(0, 42, 3), work(0, 5)});
    }
    program.met_ps = {{{42, 0}, 1}, {{42, 1}, 2}, {{42, 2}, 3}};
    const Outcome outcome = evaluation.run(program);
    check_times(outcome.times[0][1], 0, 10, 10, 30, 31);
    check_times(outcome.times[1][1], 0, 30, 30, 30, 32);
    check_times(outcome.times[2][1], 0, 20, 20, 30, 33);
    CHECK(outcome.result.finish_ps == std::vector<std::int64_t>{36, 37, 38});
    REQUIRE(outcome.asked.size() == 1);
    CHECK(outcome.asked[0].second == std::vector<std::int64_t>{0, 1, 2});
  }
}

TEST_CASE("a rendezvous of one asks for its duration and starts at once") {
  for (const Evaluation& evaluation : kEvaluations) {
    CAPTURE(evaluation.name);
    const Outcome outcome = evaluation.run({{{meet(0, 7, 1), work(0, 1)}}, {{{7, 0}, 6}}});
    check_times(outcome.times[0][1], 0, 6, 6, 6, 7);
  }
}

TEST_CASE("a host sync on a collective stalls the host until the collective has ended") {
  for (const Evaluation& evaluation : kEvaluations) {
    CAPTURE(evaluation.name);
    // Rank 1 arrives at 20, the exchange takes 2: rank 0 goes on at 22 + 1, issues until 26.
    Program program{{{synced(meet(0, 1, 2), 1), issued_in(work(1, 4), 3)}, {work(0, 20), meet(0, 1, 2)}},
                    {{{1, 0}, 2}, {{1, 1}, 2}}};
    const Outcome outcome = evaluation.run(program);
    check_times(outcome.times[0][1], 26, 0, 26, 26, 30);
  }
}

TEST_CASE("a key may be used again once all members have met") {
  for (const Evaluation& evaluation : kEvaluations) {
    CAPTURE(evaluation.name);
    const std::vector<TimedOp> twice{meet(0, 3, 2), meet(0, 3, 2)};
    const Outcome outcome = evaluation.run({{twice, twice}, {{{3, 0}, 4}, {{3, 1}, 5}}});
    // First: 0-4 and 0-5; second: both at 5.
    check_times(outcome.times[0][1], 0, 4, 4, 5, 9);
    check_times(outcome.times[1][1], 0, 5, 5, 5, 10);
    CHECK(outcome.asked.size() == 2);
  }
}

TEST_CASE("sends that cross do not block: both ranks go on past the rendezvous to the other one") {
  for (const Evaluation& evaluation : kEvaluations) {
    CAPTURE(evaluation.name);
    // Each rank sends first (stream 1) and receives then (stream 2). Compute 10 on rank 0, 20 on rank 1.
    // Key 1 (0 -> 1): ready 10 and 0, so 10-13. Key 2 (1 -> 0): ready 0 and 20, so 20-23.
    Program program{
        {{work(0, 10), after(meet(1, 1, 2), 0), meet(2, 2, 2)}, {work(0, 20), after(meet(1, 2, 2), 0), meet(2, 1, 2)}},
        {{{1, 0}, 3}, {{1, 1}, 3}, {{2, 0}, 3}, {{2, 1}, 3}}};
    const Outcome outcome = evaluation.run(program);
    check_times(outcome.times[0][1], 0, 10, 10, 10, 13);
    check_times(outcome.times[0][2], 0, 0, 0, 20, 23);
    check_times(outcome.times[1][1], 0, 20, 20, 20, 23);
    check_times(outcome.times[1][2], 0, 0, 0, 10, 13);
  }
}

TEST_CASE("a rank reaches a rendezvous behind an op that cannot start yet") {
  for (const Evaluation& evaluation : kEvaluations) {
    CAPTURE(evaluation.name);
    // Rank 0: receives A (stream 1), works on it (stream 0 after 1), and sends B (stream 2), which follows neither.
    // Rank 1 sends A only after it has received B. B: 0-4 on both; rank 1 works 4-9; A: 9-12; rank 0 works 12-22.
    // A further op on stream 2 that waits for the work ends it: 22-23.
    Program program{{{meet(1, 100, 2), after(work(0, 10), 1), meet(2, 200, 2), after(work(2, 1), 0)},
                     {meet(2, 200, 2), after(work(0, 5), 2), after(meet(1, 100, 2), 0)}},
                    {{{100, 0}, 3}, {{100, 1}, 3}, {{200, 0}, 4}, {{200, 1}, 4}}};
    const Outcome outcome = evaluation.run(program);
    check_times(outcome.times[0][0], 0, 0, 0, 9, 12);
    check_times(outcome.times[0][1], 0, 12, 12, 12, 22);
    check_times(outcome.times[0][2], 0, 0, 0, 0, 4);
    check_times(outcome.times[0][3], 0, 22, 22, 22, 23);
    CHECK(outcome.result.makespan_ps == 23);
  }
}

TEST_CASE("a rendezvous that follows another unmet one is reached through hundreds of ops that cannot start") {
  for (const Evaluation& evaluation : kEvaluations) {
    CAPTURE(evaluation.name);
    // As above, with 300 ops of 1 ps between receiving A and sending B: A 9-12, the ops 12-312.
    Program program;
    program.ranks.push_back({meet(1, 100, 2)});
    for (int i = 0; i < 300; ++i) program.ranks[0].push_back(after(work(0, 1), 1));
    program.ranks[0].push_back(meet(2, 200, 2));
    program.ranks.push_back({meet(2, 200, 2), after(work(0, 5), 2), after(meet(1, 100, 2), 0)});
    program.met_ps = {{{100, 0}, 3}, {{100, 1}, 3}, {{200, 0}, 4}, {{200, 1}, 4}};
    const Outcome outcome = evaluation.run(program);
    CHECK(outcome.result.finish_ps == std::vector<std::int64_t>{312, 12});
    check_times(outcome.times[0][301], 0, 0, 0, 0, 4);
  }
}

TEST_CASE("1F1B on two stages with two microbatches") {
  // Streams: 0 compute, 1 send forward, 2 receive forward, 3 send backward, 4 receive backward.
  // F = 10, B = 20, a transfer 3. Keys: 10 + i activations of microbatch i, 20 + i gradients.
  const TimedOp forward = work(0, 10);
  const TimedOp backward = work(0, 20);
  Program program;
  program.ranks.push_back({forward, after(meet(1, 10, 2), 0), forward, after(meet(1, 11, 2), 0), meet(4, 20, 2),
                           after(backward, 4), meet(4, 21, 2), after(backward, 4)});
  program.ranks.push_back({meet(2, 10, 2), after(forward, 2), backward, after(meet(3, 20, 2), 0), meet(2, 11, 2),
                           after(forward, 2), backward, after(meet(3, 21, 2), 0)});
  for (const std::int64_t key : {10, 11, 20, 21}) {
    program.met_ps[{key, 0}] = 3;
    program.met_ps[{key, 1}] = 3;
  }
  for (const Evaluation& evaluation : kEvaluations) {
    CAPTURE(evaluation.name);
    const Outcome outcome = evaluation.run(program);
    const std::vector<OpTimes>& first = outcome.times[0];
    const std::vector<OpTimes>& last = outcome.times[1];
    REQUIRE(first.size() == 8);
    REQUIRE(last.size() == 8);
    check_times(first[0], 0, 0, 0, 0, 10);     // F0
    check_times(first[1], 0, 10, 10, 10, 13);  // send activations 0
    check_times(first[2], 0, 10, 10, 10, 20);  // F1
    check_times(first[3], 0, 20, 20, 20, 23);  // send activations 1: the receiver has been ready since 13
    check_times(first[4], 0, 0, 0, 43, 46);    // receive gradients 0, ready at once, sent after B0 of the last stage
    check_times(first[5], 0, 46, 46, 46, 66);  // B0
    check_times(first[6], 0, 46, 46, 73, 76);  // receive gradients 1
    check_times(first[7], 0, 76, 76, 76, 96);  // B1
    check_times(last[0], 0, 0, 0, 10, 13);
    check_times(last[1], 0, 13, 13, 13, 23);  // F0
    check_times(last[2], 0, 23, 23, 23, 43);  // B0
    check_times(last[3], 0, 43, 43, 43, 46);
    check_times(last[4], 0, 13, 13, 20, 23);
    check_times(last[5], 0, 43, 43, 43, 53);  // F1
    check_times(last[6], 0, 53, 53, 53, 73);  // B1
    check_times(last[7], 0, 73, 73, 73, 76);
    // (m + p - 1)(F + B) = 3 * 30 = 90, and the two transfers that nothing hides.
    CHECK(outcome.result.makespan_ps == 96);
  }
}

TEST_CASE("max-plus holds back a sender instead of storing its program") {
  // Rank 0 could issue all 50 microbatches before rank 1 receives one: 50 * 21 ops. Instead it stops at each send until
  // the receiver is there, so that at most the send and the op pulled behind it are unreported.
  Program program;
  program.ranks.resize(2);
  for (std::int64_t key = 0; key < 50; ++key) {
    for (int i = 0; i < 20; ++i) program.ranks[0].push_back(work(0, 1));
    program.ranks[0].push_back(after(meet(1, key, 2), 0));
    program.ranks[1].push_back(meet(2, key, 2));
    for (int i = 0; i < 20; ++i) program.ranks[1].push_back(after(work(0, 1), 2));
    program.met_ps[{key, 0}] = 1;
    program.met_ps[{key, 1}] = 1;
  }
  ProgramInMemory source(program);
  // Rank 1 starts at 20 + 1 and is then never short of input: 21 + 50 * 20.
  CHECK(run_max_plus(source).makespan_ps == 1021);
  CHECK(source.most_unreported() <= 2);
}

TEST_CASE("ranks that wait for each other are an error that names the keys") {
  for (const Evaluation& evaluation : kEvaluations) {
    CAPTURE(evaluation.name);
    // One stream, opposite order: each holds what the other waits for.
    const Program crossed{{{meet(0, 501, 2), meet(0, 502, 2)}, {meet(0, 502, 2), meet(0, 501, 2)}}, {}};
    CHECK(contains(error_of(evaluation, crossed), "deadlock: 2 ranks"));
    CHECK(contains(error_of(evaluation, crossed), "rendezvous 501: 1 of 2 members, rank 0"));
    CHECK(contains(error_of(evaluation, crossed), "rendezvous 502: 1 of 2 members, rank 1"));
    // A member that never comes; rank 1 finishes.
    const Program missing{{{meet(0, 77, 2), work(0, 1)}, {work(0, 1)}}, {}};
    CHECK(contains(error_of(evaluation, missing), "deadlock: 1 ranks"));
    CHECK(contains(error_of(evaluation, missing), "rendezvous 77: 1 of 2 members, rank 0"));
    // Two streams would let them pass; a host sync forbids it.
    const Program stalled{
        {{synced(meet(1, 501, 2), 0), meet(2, 502, 2)}, {synced(meet(1, 502, 2), 0), meet(2, 501, 2)}}, {}};
    CHECK(contains(error_of(evaluation, stalled), "rendezvous 501"));
  }
}

TEST_CASE("a deadlock of many names eight keys and counts the rest") {
  for (const Evaluation& evaluation : kEvaluations) {
    CAPTURE(evaluation.name);
    Program program;
    for (std::int64_t r = 0; r < 10; ++r) program.ranks.push_back({meet(0, 1000 + r, 2)});
    const std::string error = error_of(evaluation, program);
    CHECK(contains(error, "rendezvous 1007:"));
    CHECK_FALSE(contains(error, "rendezvous 1008:"));
    CHECK(contains(error, "; and 2 more"));
  }
}

TEST_CASE("broken programs are errors of ours") {
  for (const Evaluation& evaluation : kEvaluations) {
    CAPTURE(evaluation.name);
    CHECK(contains(error_of(evaluation, {{{work(16, 1)}}, {}}), "stream"));
    CHECK(error_of(evaluation, {{{work(15, 1)}}, {}}) == "no error");
    CHECK(contains(error_of(evaluation, {{{work(0, -1)}}, {}}), "negative"));
    CHECK(contains(error_of(evaluation, {{{meet(0, 1, 0)}}, {}}), "at least one member"));
    CHECK(contains(error_of(evaluation, {{{meet(0, 1, 3)}, {meet(0, 1, 2)}}, {}}), "disagree"));
    CHECK(contains(error_of(evaluation, {{{meet(0, 1, 2), meet(1, 1, 2)}}, {}}), "meets itself"));
    CHECK(contains(error_of(evaluation, {{{meet(0, 1, 1)}}, {{{1, 0}, -5}}}), "negative duration"));
  }
}

}  // namespace moeplan::engine
