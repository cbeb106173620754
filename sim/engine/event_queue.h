#pragma once
#include <cstdint>
#include <queue>
#include <tuple>
#include <vector>

#include "base/check.h"

namespace moeplan::engine {

// What happens at one time. Events at equal times go by priority, then in the order in which they were scheduled.
enum class EventKind : std::uint8_t {
  op_end = 0,     // first: an end at t counts for all that is decided at t
  op_issued = 1,  // the host has issued `op`
  host_free = 2,  // the host turns to `op`, the next of its program
};

struct Event {
  std::int64_t time_ps = 0;
  EventKind kind = EventKind::op_end;  // also its priority
  std::int64_t sequence = 0;
  std::int64_t rank = 0;
  std::int64_t op = 0;
};

class EventQueue {
 public:
  void schedule(std::int64_t time_ps, EventKind kind, std::int64_t rank, std::int64_t op) {
    MOEPLAN_CHECK(time_ps >= now_ps_, "an event in the past");
    heap_.push({time_ps, kind, scheduled_++, rank, op});
  }
  bool empty() const { return heap_.empty(); }
  Event pop() {
    const Event event = heap_.top();
    heap_.pop();
    now_ps_ = event.time_ps;
    return event;
  }

 private:
  struct Later {
    bool operator()(const Event& a, const Event& b) const {
      return std::tie(a.time_ps, a.kind, a.sequence) > std::tie(b.time_ps, b.kind, b.sequence);
    }
  };
  std::priority_queue<Event, std::vector<Event>, Later> heap_;
  std::int64_t scheduled_ = 0;
  std::int64_t now_ps_ = 0;
};

}  // namespace moeplan::engine
