#pragma once
#include <cstdint>
#include <span>
#include <vector>

// The discrete-event core: hosts issue operations in program order, streams run in order, collectives start when the last member arrives. Times are int64
// picoseconds. Two evaluations of the same semantics: run_max_plus (no queue; start times as a recurrence) and run_events (event queue ordered by time, priority,
// sequence: the slow obvious reference). Both give equal times (a test over random programs).
namespace moeplan::engine {

inline constexpr int kMaxStreams = 16;
// Work in picoseconds times multiprocessors stays below 2^63 for ops of up to 9000 s.
inline constexpr std::int32_t kMostMultiprocessors = 1024;

struct TimedOp {
  std::int64_t duration_ps = 0;    // of an op without rendezvous
  std::int64_t issue_ps = 0;       // host time to issue it; the op cannot start before the host has issued it
  std::int64_t sync_ps = 0;        // with host_sync: extra host time after the op's end
  std::uint8_t stream = 0;
  bool host_sync = false;          // the host issues nothing more until this op has ended
  std::uint16_t wait_streams = 0;  // bit s: starts no earlier than the end of the rank's last op before it on stream s
  std::int64_t rendezvous = -1;    // >= 0: key shared by `members` ranks; each starts when all have arrived
  std::int32_t members = 1;
  std::int16_t holds = 0;   // multiprocessors that it keeps from its rank's other ops, from its ready time to its end
  std::int16_t out_of = 0;  // > 0, on stream 0: duration_ps is that on so many multiprocessors, and ops before it in the
                            // program that hold some while it runs slow it down in that proportion (sharing.h)
};

// Times of one op on one rank. issued <= ready <= start <= end; ready: own stream and waits are done and the host has issued it; start - ready: waiting for the other members.
struct OpTimes {
  std::int64_t issued_ps = 0;   // the host has issued it
  std::int64_t streams_ps = 0;  // own stream and waits are done
  std::int64_t ready_ps = 0;    // max of both
  std::int64_t start_ps = 0;
  std::int64_t end_ps = 0;
};

// Where the engine gets its program: a pull interface, so that a program of 10^8 ops is never stored.
class ProgramSource {
 public:
  virtual ~ProgramSource() = default;
  virtual std::int64_t ranks() const = 0;
  // The next op of a rank's program, in order; false at its end (stays false).
  virtual bool next(std::int64_t rank, TimedOp& op) = 0;
  // Called once when the last member has arrived: durations for the members, in the order of `ranks` (ascending).
  virtual void rendezvous_durations(std::int64_t key, std::span<const std::int64_t> ranks, std::span<std::int64_t> duration_ps) = 0;
  // Called once per op, for each rank in program order, when its times are known.
  virtual void done(std::int64_t rank, const OpTimes& times) = 0;
};

struct RunResult {
  std::vector<std::int64_t> finish_ps;  // per rank: end of its last op (host included)
  std::int64_t makespan_ps = 0;
  std::int64_t ops = 0;
};

// Throw base::InternalError when ranks wait for each other for ever (naming the rendezvous keys): a plan must not do that.
RunResult run_max_plus(ProgramSource& source);
RunResult run_events(ProgramSource& source);

}  // namespace moeplan::engine
