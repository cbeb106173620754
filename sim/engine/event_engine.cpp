#include <algorithm>
#include <deque>
#include <map>
#include <vector>

#include "engine/deadlock.h"
#include "engine/engine.h"
#include "engine/event_queue.h"
#include "engine/op_check.h"

// The reference: what happens, in the order of time. It shares no code of evaluation with max_plus.cpp, keeps every op
// until it is reported, and favours being plain over being fast.
namespace moeplan::engine {
namespace {

struct Op {
  TimedOp timed;
  OpTimes times;
  int open = 0;                    // ops it follows that have not ended
  std::vector<std::int64_t> then;  // later ops of the rank that follow this one
  bool ended = false;
  std::int64_t ends_ps = -1;  // as things stand
  // Of computation that runs: work left at `since_ps`, in picoseconds times multiprocessors.
  std::int64_t work_left = 0, since_ps = 0, rate = 0;
};

struct Stream {
  std::int64_t last_op = -1;     // in program order, issued
  std::int64_t last_end_ps = 0;  // of the last op that has ended: the latest, as a stream runs in order
};

struct Rank {
  std::int64_t host_ps = 0;
  Stream streams[kMaxStreams];
  std::deque<Op> ops;         // pulled and not reported
  std::int64_t first_op = 0;  // number of ops.front() in the program
  bool at_end = false;
  std::map<std::int64_t, std::int64_t> held;  // multiprocessors, by the number of the op that holds them
  std::int64_t computing = -1;                // the op that shares multiprocessors and runs
  Op& op(std::int64_t number) { return ops[static_cast<std::size_t>(number - first_op)]; }
  std::int64_t next_op() const { return first_op + static_cast<std::int64_t>(ops.size()); }
};

struct Meeting {
  std::int32_t members = 0;
  std::map<std::int64_t, std::int64_t> op_of_rank;
};

class EventEngine {
 public:
  explicit EventEngine(ProgramSource& source) : source_(source), ranks_(static_cast<std::size_t>(source.ranks())) {}

  RunResult run() {
    for (std::int64_t r = 0; r < source_.ranks(); ++r) queue_.schedule(0, EventKind::host_free, r, 0);
    while (!queue_.empty()) {
      const Event event = queue_.pop();
      switch (event.kind) {
        case EventKind::host_free:
          host_free(event);
          break;
        case EventKind::op_issued:
          op_issued(event);
          break;
        case EventKind::op_end:
          op_end(event);
          break;
      }
    }
    return result();
  }

 private:
  Rank& rank(std::int64_t r) { return ranks_[static_cast<std::size_t>(r)]; }

  // The host takes up the next op of its program and is busy issuing it.
  void host_free(const Event& event) {
    Rank& state = rank(event.rank);
    MOEPLAN_CHECK(event.op == state.next_op(), "the host leaves an op out");
    TimedOp timed;
    if (!source_.next(event.rank, timed)) {
      state.at_end = true;
      return;
    }
    check_op(timed);
    ++ops_;
    state.ops.emplace_back();
    state.ops.back().timed = timed;
    queue_.schedule(event.time_ps + timed.issue_ps, EventKind::op_issued, event.rank, event.op);
  }

  // The op enters its stream behind all it follows; unless it must see the end, the host goes on at once.
  void op_issued(const Event& event) {
    Rank& state = rank(event.rank);
    Op& op = state.op(event.op);
    op.times.issued_ps = event.time_ps;
    state.host_ps = event.time_ps;
    const std::uint32_t follows = followed_streams(op.timed);
    for (std::size_t s = 0; s < kMaxStreams; ++s) {
      if ((follows >> s & 1U) == 0) continue;
      const Stream& stream = state.streams[s];
      const bool over = stream.last_op < state.first_op || state.op(stream.last_op).ended;
      if (over) {
        op.times.streams_ps = std::max(op.times.streams_ps, stream.last_end_ps);
      } else {
        state.op(stream.last_op).then.push_back(event.op);
        ++op.open;
      }
    }
    state.streams[op.timed.stream].last_op = event.op;
    if (!op.timed.host_sync) queue_.schedule(event.time_ps, EventKind::host_free, event.rank, event.op + 1);
    if (op.open == 0) op_ready(event.time_ps, event.rank, event.op);
  }

  // Nothing holds the op back on its own rank.
  void op_ready(std::int64_t now_ps, std::int64_t r, std::int64_t number) {
    Op& op = rank(r).op(number);
    op.times.ready_ps = now_ps;
    if (op.timed.holds > 0) {
      rank(r).held[number] = op.timed.holds;
      change_rate(now_ps, r);
    }
    if (op.timed.rendezvous < 0) {
      op_start(now_ps, r, number, op.timed.duration_ps);
      return;
    }
    const std::int64_t key = op.timed.rendezvous;
    Meeting& meeting = meetings_[key];
    MOEPLAN_CHECK(meeting.members == 0 || meeting.members == op.timed.members,
                  "members of a rendezvous disagree on their number");
    meeting.members = op.timed.members;
    const bool first_time = meeting.op_of_rank.emplace(r, number).second;
    MOEPLAN_CHECK(first_time, "a rank meets itself in a rendezvous");
    if (meeting.op_of_rank.size() < static_cast<std::size_t>(meeting.members)) return;

    std::vector<std::int64_t> members;
    for (const auto& [member, unused] : meeting.op_of_rank) members.push_back(member);
    std::vector<std::int64_t> durations_ps(members.size(), 0);
    source_.rendezvous_durations(key, members, durations_ps);
    for (std::size_t i = 0; i < members.size(); ++i) {
      MOEPLAN_CHECK(durations_ps[i] >= 0, "negative duration of a rendezvous");
      op_start(now_ps, members[i], meeting.op_of_rank.at(members[i]), durations_ps[i]);
    }
    meetings_.erase(key);
  }

  void op_start(std::int64_t now_ps, std::int64_t r, std::int64_t number, std::int64_t duration_ps) {
    Op& op = rank(r).op(number);
    op.times.start_ps = now_ps;
    if (op.timed.out_of > 0) {
      op.work_left = duration_ps * op.timed.out_of;
      op.since_ps = now_ps;
      rank(r).computing = number;
      change_rate(now_ps, r);
      return;
    }
    op.ends_ps = now_ps + duration_ps;
    queue_.schedule(op.ends_ps, EventKind::op_end, r, number);
  }

  // What runs has gone on at its old rate until now, and ends when the rest is done at the new one.
  void change_rate(std::int64_t now_ps, std::int64_t r) {
    Rank& state = rank(r);
    if (state.computing < 0) return;
    Op& op = state.op(state.computing);
    op.work_left = std::max<std::int64_t>(op.work_left - op.rate * (now_ps - op.since_ps), 0);
    op.since_ps = now_ps;
    std::int64_t free = op.timed.out_of;
    for (const auto& [number, held] : state.held)
      if (number < state.computing) free -= held;
    op.rate = std::max<std::int64_t>(free, 1);
    const std::int64_t ends_ps = now_ps + (op.work_left + op.rate - 1) / op.rate;
    if (ends_ps == op.ends_ps) return;
    op.ends_ps = ends_ps;
    queue_.schedule(ends_ps, EventKind::op_end, r, state.computing);
  }

  void op_end(const Event& event) {
    Rank& state = rank(event.rank);
    if (event.op < state.first_op) return;  // its end has moved, and has been
    Op& op = state.op(event.op);
    if (op.ended || op.ends_ps != event.time_ps) return;
    op.times.end_ps = event.time_ps;
    op.ended = true;
    if (state.computing == event.op) state.computing = -1;
    if (state.held.erase(event.op) > 0) change_rate(event.time_ps, event.rank);
    state.streams[op.timed.stream].last_end_ps = event.time_ps;
    if (op.timed.host_sync) {
      state.host_ps = event.time_ps + op.timed.sync_ps;
      queue_.schedule(state.host_ps, EventKind::host_free, event.rank, event.op + 1);
    }
    for (const std::int64_t later : op.then) {
      Op& follower = state.op(later);
      follower.times.streams_ps = event.time_ps;  // events come in order, so the last one is the maximum
      if (--follower.open == 0) op_ready(event.time_ps, event.rank, later);
    }
    while (!state.ops.empty() && state.ops.front().ended) {
      source_.done(event.rank, state.ops.front().times);
      state.ops.pop_front();
      ++state.first_op;
    }
  }

  RunResult result() {
    RunResult out;
    out.ops = ops_;
    std::int64_t unfinished = 0;
    for (const Rank& state : ranks_) {
      if (!state.at_end || !state.ops.empty()) ++unfinished;
      std::int64_t finish_ps = state.host_ps;
      for (const Stream& stream : state.streams) finish_ps = std::max(finish_ps, stream.last_end_ps);
      out.finish_ps.push_back(finish_ps);
      out.makespan_ps = std::max(out.makespan_ps, finish_ps);
    }
    if (unfinished > 0) {
      std::vector<Stuck> stuck;
      for (const auto& [key, meeting] : meetings_) {
        stuck.push_back({key, static_cast<std::int64_t>(meeting.op_of_rank.size()), meeting.members,
                         meeting.op_of_rank.begin()->first});
      }
      throw_deadlock(unfinished, stuck);
    }
    return out;
  }

  ProgramSource& source_;
  std::vector<Rank> ranks_;
  std::int64_t ops_ = 0;
  EventQueue queue_;
  std::map<std::int64_t, Meeting> meetings_;
};

}  // namespace

RunResult run_events(ProgramSource& source) { return EventEngine(source).run(); }

}  // namespace moeplan::engine
