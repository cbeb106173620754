#pragma once
#include <cstdint>

#include "engine/engine.h"
#include "engine/flight_window.h"

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
};

}  // namespace moeplan::engine
