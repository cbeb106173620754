#include "memory/timeline.h"

namespace moeplan::memory {

Timeline timeline_of(const plan::Plan& plan, std::int64_t rank, std::int64_t iterations) {
  Timeline timeline;
  ReservedReplay replay(plan, rank, allocator_settings(plan, rank), &timeline.events);
  for (std::int64_t i = 0; i < iterations; ++i) replay.run(plan);
  timeline.reserved = replay.result();
  return timeline;
}

}  // namespace moeplan::memory
