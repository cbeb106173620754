#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "engine/engine.h"

// Multiprocessors that communication kernels keep from the computation beside them.
namespace moeplan::engine {

// An op that holds `multiprocessors` of its rank over [from, to).
struct Holding {
  std::int64_t sequence = 0;  // of the op in the rank's program
  std::int64_t from_ps = 0, to_ps = 0;
  std::int32_t multiprocessors = 0;
};

inline constexpr std::int64_t kHeldForEver = INT64_MAX;

// When an op that starts at `start_ps` ends. It has `op.duration_ps` of work on all of op.out_of multiprocessors, and
// goes on the slower the more of them are held by ops before it in the program; one always stays. Work is counted in
// picoseconds times multiprocessors, so that nothing is rounded but the end (up).
inline std::int64_t shared_end_ps(const TimedOp& op, std::int64_t sequence, std::int64_t start_ps,
                                  const std::vector<Holding>& holdings) {
  std::int64_t left = op.duration_ps * op.out_of, now_ps = start_ps;
  while (true) {
    std::int64_t held = 0, change_ps = kHeldForEver;
    for (const Holding& holding : holdings) {
      if (holding.sequence >= sequence || holding.to_ps <= now_ps) continue;
      change_ps = std::min(change_ps, holding.from_ps > now_ps ? holding.from_ps : holding.to_ps);
      if (holding.from_ps <= now_ps) held += holding.multiprocessors;
    }
    const std::int64_t rate = std::max<std::int64_t>(op.out_of - held, 1), needs_ps = (left + rate - 1) / rate;
    if (change_ps == kHeldForEver || needs_ps <= change_ps - now_ps) return now_ps + needs_ps;
    left -= rate * (change_ps - now_ps);  // less than `left`: no overflow
    now_ps = change_ps;
  }
}

}  // namespace moeplan::engine
