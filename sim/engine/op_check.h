#pragma once
#include <cstdint>

#include "base/check.h"
#include "engine/engine.h"

// What both evaluations demand of a program.
namespace moeplan::engine {

inline void check_op(const TimedOp& op) {
  static_assert(kMaxStreams == 16, "wait_streams has one bit a stream");
  MOEPLAN_CHECK(op.stream < kMaxStreams, "stream of an op");
  // One sign for all three: this runs once per op.
  MOEPLAN_CHECK((op.duration_ps | op.issue_ps | op.sync_ps) >= 0, "negative time of an op");
  MOEPLAN_CHECK(op.rendezvous < 0 || op.members >= 1, "a rendezvous has at least one member");
  MOEPLAN_CHECK(op.holds >= 0 && op.out_of >= 0 && op.out_of <= kMostMultiprocessors, "multiprocessors of an op");
  MOEPLAN_CHECK(op.out_of == 0 || (op.stream == 0 && op.rendezvous < 0 && op.holds == 0),
                "computation that shares multiprocessors runs on stream 0");
}

// Streams whose last ops an op follows: its own and those it waits for.
inline std::uint32_t followed_streams(const TimedOp& op) {
  return static_cast<std::uint32_t>(op.wait_streams) | (std::uint32_t{1} << op.stream);
}

}  // namespace moeplan::engine
