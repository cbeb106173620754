#include <algorithm>
#include <bit>
#include <deque>
#include <iterator>
#include <vector>

#include "engine/deadlock.h"
#include "engine/engine.h"
#include "engine/op_check.h"
#include "engine/rank_state.h"
#include "engine/rendezvous_table.h"
#include "engine/sharing.h"

// Start times as a recurrence over streams and rendezvous, without a queue of events.
//
// The host does not wait for the device, so a rank may go on past an op whose end is unknown (a rendezvous that others
// have yet to reach). How far it goes changes only the memory needed, never a time. So ranks go on lazily, in three
// steps:
//   1. run:   ranks whose next op can be evaluated and that have not just arrived at a rendezvous;
//   2. ahead: only when no rank can run: past a rendezvous with other members missing, up to the next rendezvous;
//   3. defer: only when none of those is left: past ops that follow an unknown end, a few at a time.
// Computation that multiprocessors may be kept from has its end once those of the ops beside it are known. Where ranks
// wait for each other because of that (the other end follows this one, over other ranks), the computation that ends
// first by what is known ends then: nothing can change before it.
namespace moeplan::engine {
namespace {

constexpr int kNoDeferral = 0;
constexpr int kDeferAtOnce = 64;

class MaxPlus {
 public:
  explicit MaxPlus(ProgramSource& source) : source_(source), ranks_(static_cast<std::size_t>(source.ranks())) {
    for (std::int64_t r = source.ranks() - 1; r >= 0; --r) wake(r);
  }

  RunResult run() {
    while (true) {
      if (!run_.empty()) {
        // Last in, first out: a group that goes on together stays in the cache.
        const std::int64_t r = run_.back();
        run_.pop_back();
        rank(r).in_run = false;
        step(r, kNoDeferral);
      } else if (!ahead_.empty()) {
        const std::int64_t r = ahead_.front();
        ahead_.pop_front();
        rank(r).in_ahead = false;
        step(r, kNoDeferral);
      } else if (!defer_.empty()) {
        const std::int64_t r = defer_.front();
        defer_.pop_front();
        rank(r).in_defer = false;
        step(r, kDeferAtOnce);
      } else if (!end_first_beside()) {
        break;
      }
    }
    return result();
  }

 private:
  struct Resolution {
    std::int64_t rank;
    std::int64_t sequence;
    std::int64_t start_ps;
    std::int64_t duration_ps;
  };
  struct Edge {
    std::int64_t sequence = 0;  // of the later op, on the same rank
    std::int32_t next = -1;
    bool beside = false;  // runs beside, does not follow
  };

  RankState& rank(std::int64_t r) { return ranks_[static_cast<std::size_t>(r)]; }

  void wake(std::int64_t r) {
    RankState& state = rank(r);
    if (state.in_run || state.at_end || state.host_waits) return;
    state.in_run = true;
    run_.push_back(r);
  }

  bool pull(std::int64_t r, RankState& state) {
    if (state.pulled) return true;
    if (state.at_end || state.host_waits) return false;
    if (!source_.next(r, state.op)) {
      state.at_end = true;
      return false;
    }
    check_op(state.op);
    ++ops_;
    state.host_ps += state.op.issue_ps;
    state.issued_ps = state.host_ps;
    state.pulled = true;
    return true;
  }

  // Evaluates the rank's program up to the next rendezvous or unknown end; `deferrals` ops may lie beyond the latter.
  // Whenever it leaves a rank that could go on, the rank is in one of the three lists.
  void step(std::int64_t r, int deferrals) {
    RankState& state = rank(r);
    while (pull(r, state)) {
      const std::uint32_t follows = followed_streams(state.op);
      const std::uint32_t beside = state.op.out_of > 0 ? state.holding & ~follows : 0;
      if (((follows | beside) & state.unknown) != 0) {
        if (deferrals == 0) {
          if (!state.in_defer) defer_.push_back(r);
          state.in_defer = true;
          return;
        }
        --deferrals;
        defer(state, follows, beside);
        continue;
      }
      std::int64_t streams_ps = 0;
      for (std::uint32_t bits = follows; bits != 0; bits &= bits - 1) {
        streams_ps = std::max(streams_ps, state.end_ps[std::countr_zero(bits)]);
      }
      if (state.op.rendezvous >= 0) {
        meet(r, state, streams_ps);
        if (!state.in_run && !state.host_waits && !state.in_ahead) {
          state.in_ahead = true;
          ahead_.push_back(r);
        }
        return;
      }
      evaluate(r, state, streams_ps);
    }
  }

  // An op without rendezvous whose start is known.
  void evaluate(std::int64_t r, RankState& state, std::int64_t streams_ps) {
    const TimedOp& op = state.op;
    const std::int64_t ready_ps = std::max(state.issued_ps, streams_ps);
    std::int64_t end_ps = ready_ps + op.duration_ps;
    if (op.out_of > 0 && !state.holdings.empty())
      end_ps = shared_end_ps(op, state.window.next_sequence(), ready_ps, state.holdings);
    if (op.holds > 0) state.hold({state.window.next_sequence(), ready_ps, end_ps, op.holds});
    const OpTimes times{state.issued_ps, streams_ps, ready_ps, ready_ps, end_ps};
    state.end_ps[op.stream] = times.end_ps;
    if (op.host_sync) state.host_ps = std::max(state.host_ps, times.end_ps + op.sync_ps);
    state.pulled = false;
    if (state.window.empty()) {
      state.window.skip();
      source_.done(r, times);
      return;
    }
    InFlight& flight = state.window.push();
    flight.times = times;
    flight.resolved = true;
  }

  // Puts the pulled op, whose end is unknown, into the window.
  InFlight& launch(RankState& state, std::int64_t streams_ps) {
    const TimedOp& op = state.op;
    const std::int64_t sequence = state.window.next_sequence();
    InFlight& flight = state.window.push();
    flight.times.issued_ps = state.issued_ps;
    flight.times.streams_ps = streams_ps;
    flight.duration_ps = op.duration_ps;
    flight.sync_ps = op.sync_ps;
    flight.rendezvous = op.rendezvous;
    flight.members = op.members;
    flight.stream = op.stream;
    flight.host_sync = op.host_sync;
    flight.holds = op.holds;
    flight.out_of = op.out_of;
    if (op.holds > 0) state.holding |= std::uint32_t{1} << op.stream;
    state.unknown |= std::uint32_t{1} << op.stream;
    state.last_sequence[op.stream] = sequence;
    state.host_waits = op.host_sync;
    state.pulled = false;
    return flight;
  }

  void meet(std::int64_t r, RankState& state, std::int64_t streams_ps) {
    const std::int64_t sequence = state.window.next_sequence();
    launch(state, streams_ps);
    arrive(r, sequence);
    resolve_all();
  }

  void defer(RankState& state, std::uint32_t follows, std::uint32_t beside) {
    const std::int64_t sequence = state.window.next_sequence();
    std::int64_t streams_ps = 0;
    std::uint8_t count = 0;
    for (std::uint32_t bits = follows; bits != 0; bits &= bits - 1) {
      const int stream = std::countr_zero(bits);
      if ((state.unknown >> stream & 1U) == 0) {
        streams_ps = std::max(streams_ps, state.end_ps[stream]);
        continue;
      }
      ++count;
      add_edge(state.window.at(state.last_sequence[stream]), sequence, false);
    }
    std::uint8_t count_beside = 0;
    for (std::uint32_t bits = beside & state.unknown; bits != 0; bits &= bits - 1) {
      ++count_beside;
      add_edge(state.window.at(state.last_sequence[std::countr_zero(bits)]), sequence, true);
    }
    InFlight& flight = launch(state, streams_ps);
    flight.follows = count;
    flight.beside = count_beside;
    if (count == 0) set_ready(flight);
  }

  static void set_ready(InFlight& flight) {
    flight.times.ready_ps = std::max(flight.times.issued_ps, flight.times.streams_ps);
    flight.ready = true;
  }

  void add_edge(InFlight& before, std::int64_t sequence, bool beside) {
    if (free_edges_.empty()) {
      free_edges_.push_back(static_cast<std::int32_t>(edges_.size()));
      edges_.emplace_back();
    }
    const std::int32_t edge = free_edges_.back();
    free_edges_.pop_back();
    edges_[static_cast<std::size_t>(edge)] = {sequence, before.first_edge, beside};
    before.first_edge = edge;
  }

  // All that an op in the window follows is known. Without rendezvous its end is known too; else the rank has arrived.
  void arrive(std::int64_t r, std::int64_t sequence) {
    RankState& state = rank(r);
    InFlight& flight = state.window.at(sequence);
    set_ready(flight);
    if (flight.rendezvous < 0) {
      std::int64_t duration_ps = flight.duration_ps;
      if (flight.out_of > 0) duration_ps = end_beside_ps(flight, sequence, state.holdings) - flight.times.ready_ps;
      resolutions_.push_back({r, sequence, flight.times.ready_ps, duration_ps});
      return;
    }
    const std::int64_t key = flight.rendezvous;
    if (!table_.arrive(key, flight.members, {r, sequence, flight.times.ready_ps})) return;

    const std::vector<Arrival>& arrivals = table_.last();
    member_ranks_.clear();
    std::int64_t start_ps = 0;
    for (const Arrival& arrival : arrivals) {
      member_ranks_.push_back(arrival.rank);
      start_ps = std::max(start_ps, arrival.ready_ps);
    }
    durations_ps_.assign(arrivals.size(), 0);
    source_.rendezvous_durations(key, member_ranks_, durations_ps_);
    for (std::size_t i = 0; i < arrivals.size(); ++i) {
      MOEPLAN_CHECK(durations_ps_[i] >= 0, "negative duration of a rendezvous");
      resolutions_.push_back({arrivals[i].rank, arrivals[i].sequence, start_ps, durations_ps_[i]});
    }
  }

  static std::int64_t end_beside_ps(const InFlight& flight, std::int64_t sequence,
                                    const std::vector<Holding>& holdings) {
    TimedOp op;
    op.duration_ps = flight.duration_ps;
    op.out_of = flight.out_of;
    return shared_end_ps(op, sequence, flight.times.ready_ps, holdings);
  }

  // Of all computation that waits for nothing but ends beside it, the one that ends first, with what holds
  // multiprocessors now holding them on. False: there is none.
  bool end_first_beside() {
    Resolution first{-1, 0, 0, 0};
    for (std::int64_t r = 0; r < source_.ranks(); ++r) {
      RankState& state = rank(r);
      std::vector<Holding> holdings = state.holdings;
      for (std::int64_t s = state.window.first_sequence(); s < state.window.next_sequence(); ++s) {
        const InFlight& flight = state.window.at(s);
        if (flight.resolved) continue;
        if (flight.holds > 0 && flight.ready)
          holdings.push_back({s, flight.times.ready_ps, kHeldForEver, flight.holds});
        if (flight.beside == 0 || flight.follows > 0) continue;
        const std::int64_t end_ps = end_beside_ps(flight, s, holdings);
        if (first.rank < 0 || end_ps < first.start_ps + first.duration_ps)
          first = {r, s, flight.times.ready_ps, end_ps - flight.times.ready_ps};
      }
    }
    if (first.rank < 0) return false;
    resolutions_.push_back(first);
    resolve_all();
    return true;
  }

  // A list of what to do instead of recursion: one end may settle long chains over many ranks.
  void resolve_all() {
    while (!resolutions_.empty()) {
      const Resolution resolution = resolutions_.back();
      resolutions_.pop_back();
      resolve(resolution);
    }
  }

  void resolve(const Resolution& resolution) {
    const std::int64_t r = resolution.rank;
    RankState& state = rank(r);
    InFlight& flight = state.window.at(resolution.sequence);
    const std::int64_t end_ps = resolution.start_ps + resolution.duration_ps;
    flight.times.start_ps = resolution.start_ps;
    flight.times.end_ps = end_ps;
    flight.resolved = true;
    if (state.last_sequence[flight.stream] == resolution.sequence) {
      state.end_ps[flight.stream] = end_ps;
      state.unknown &= ~(std::uint32_t{1} << flight.stream);
      state.holding &= state.unknown;
    }
    if (flight.holds > 0) state.hold({resolution.sequence, flight.times.ready_ps, end_ps, flight.holds});
    if (flight.host_sync) {
      state.host_ps = std::max(state.host_ps, end_ps + flight.sync_ps);
      state.host_waits = false;
    }
    for (std::int32_t edge = flight.first_edge; edge >= 0;) {
      const Edge& followed_by = edges_[static_cast<std::size_t>(edge)];
      InFlight& later = state.window.at(followed_by.sequence);
      if (followed_by.beside) {
        --later.beside;
      } else {
        later.times.streams_ps = std::max(later.times.streams_ps, end_ps);
        if (--later.follows == 0) set_ready(later);
      }
      if (later.follows == 0 && later.beside == 0 && !later.resolved) arrive(r, followed_by.sequence);
      free_edges_.push_back(edge);
      edge = followed_by.next;
    }
    while (!state.window.empty() && state.window.front().resolved) {
      source_.done(r, state.window.front().times);
      state.window.pop();
    }
    wake(r);
  }

  RunResult result() {
    RunResult out;
    out.ops = ops_;
    std::int64_t unfinished = 0;
    for (const RankState& state : ranks_) {
      if (!state.at_end || !state.window.empty()) ++unfinished;
      const std::int64_t end_ps = *std::max_element(std::begin(state.end_ps), std::end(state.end_ps));
      out.finish_ps.push_back(std::max(state.host_ps, end_ps));
      out.makespan_ps = std::max(out.makespan_ps, out.finish_ps.back());
    }
    if (unfinished > 0) throw_deadlock(unfinished, table_.waiting());
    return out;
  }

  ProgramSource& source_;
  std::vector<RankState> ranks_;
  std::int64_t ops_ = 0;
  std::vector<std::int64_t> run_;
  std::deque<std::int64_t> ahead_;
  std::deque<std::int64_t> defer_;
  RendezvousTable table_;
  std::vector<Resolution> resolutions_;
  std::vector<Edge> edges_;
  std::vector<std::int32_t> free_edges_;
  std::vector<std::int64_t> member_ranks_;
  std::vector<std::int64_t> durations_ps_;
};

}  // namespace

RunResult run_max_plus(ProgramSource& source) { return MaxPlus(source).run(); }

}  // namespace moeplan::engine
