#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "engine/step.h"
#include "memory/timeline.h"
#include "plan/plan.h"

namespace moeplan::search {

// Memory of one rank in program order with the engine's times: what `run --memory-timeline` writes.
struct MemoryTimeline {
  plan::Plan plan;  // of the first iteration, which is repeated
  std::int64_t rank = 0, iterations = 0;
  memory::Timeline memory;
  std::vector<std::vector<engine::OpClock>> clocks;  // [visit][op], of one step
  double step_s = 0;
};
MemoryTimeline memory_timeline(const std::shared_ptr<const scenario::Scenario>& scenario, std::int64_t rank,
                               int threads);

}  // namespace moeplan::search
