#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "engine/engine.h"
#include "engine/flight_window.h"
#include "engine/sharing.h"

namespace moeplan::engine {

// Where max-plus stands in one rank: of the ops it has reported, only the last end on each stream is kept.
struct RankState {
  std::int64_t host_ps = 0;
  std::int64_t end_ps[kMaxStreams] = {};  // of the last op on the stream; stale while its bit in `unknown` is set
  std::uint32_t unknown = 0;              // streams whose last op has no known end
  bool host_waits = false;                // for the op with host_sync that was pulled last
  bool at_end = false;
  bool pulled = false;  // `op` is not evaluated yet
  bool in_run = false;
  bool in_ahead = false;
  bool in_defer = false;
  TimedOp op;
  std::int64_t issued_ps = 0;  // of `op`
  FlightWindow window;
  std::int64_t last_sequence[kMaxStreams] = {};  // of the last op on the stream, where its bit in `unknown` is set
  std::uint32_t holding = 0;                     // streams with an op of unknown end that holds multiprocessors
  std::vector<Holding> holdings;                 // of known end, that may yet be beside computation

  // Computation comes in order, so what ended before its last known end is over for all that follows.
  void hold(const Holding& added) {
    std::erase_if(holdings, [this](const Holding& h) { return h.to_ps <= end_ps[0]; });
    if (added.to_ps > std::max(added.from_ps, end_ps[0])) holdings.push_back(added);
  }
};

}  // namespace moeplan::engine
