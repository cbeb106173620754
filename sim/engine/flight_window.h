#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/engine.h"

namespace moeplan::engine {

// An op of max-plus that is not reported yet: its end, or that of an op before it, is unknown.
struct InFlight {
  OpTimes times;
  std::int64_t duration_ps = 0;
  std::int64_t sync_ps = 0;
  std::int64_t rendezvous = -1;
  std::int32_t members = 1;
  std::int32_t first_edge = -1;  // list of the later ops that follow this one
  std::uint8_t follows = 0;      // ops before it whose end is unknown
  std::uint8_t beside = 0;       // of the ops beside it that may slow it down, those of unknown end
  std::int16_t holds = 0, out_of = 0;
  bool ready = false;  // times.ready_ps is known
  std::uint8_t stream = 0;
  bool host_sync = false;
  bool resolved = false;
};

// The unreported ops of one rank, a ring in program order. References stay valid until the next push.
class FlightWindow {
 public:
  bool empty() const { return size_ == 0; }
  std::int64_t first_sequence() const { return first_; }
  std::int64_t next_sequence() const { return first_ + static_cast<std::int64_t>(size_); }

  // An op that was reported at once only counts.
  void skip() { ++first_; }

  InFlight& push() {
    if (size_ == ring_.size()) grow();
    InFlight& op = ring_[index(next_sequence())];
    op = InFlight{};
    ++size_;
    return op;
  }
  InFlight& at(std::int64_t sequence) { return ring_[index(sequence)]; }
  InFlight& front() { return ring_[index(first_)]; }
  void pop() {
    ++first_;
    --size_;
  }

 private:
  std::size_t index(std::int64_t sequence) const { return static_cast<std::size_t>(sequence) & (ring_.size() - 1); }

  void grow() {
    std::vector<InFlight> old(ring_.empty() ? 4 : 2 * ring_.size());  // a power of two: index() masks
    old.swap(ring_);
    for (std::int64_t s = first_; s < next_sequence(); ++s) {
      ring_[index(s)] = old[static_cast<std::size_t>(s) & (old.size() - 1)];
    }
  }

  std::vector<InFlight> ring_;
  std::int64_t first_ = 0;  // sequence of the front
  std::size_t size_ = 0;
};

}  // namespace moeplan::engine
