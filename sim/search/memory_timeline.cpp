#include "search/memory_timeline.h"

#include <algorithm>
#include <thread>

namespace moeplan::search {

MemoryTimeline memory_timeline(const std::shared_ptr<const scenario::Scenario>& scenario, std::int64_t rank,
                               int threads) {
  const int workers = threads > 0 ? threads : static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  MemoryTimeline timeline{plan::make_plan(scenario, 0, workers), rank, 2, {}, {}, 0};
  // Graphs are captured in the second iteration: a third one replays them.
  if (scenario->training.cuda_graphs != scenario::CudaGraphs::none) ++timeline.iterations;
  const std::int64_t standing = timeline.plan.representative_of(rank);
  timeline.memory = memory::timeline_of(timeline.plan, standing, timeline.iterations);
  timeline.clocks = engine::op_clocks(timeline.plan, standing);
  timeline.step_s = engine::run_step(timeline.plan).step_s;
  return timeline;
}

}  // namespace moeplan::search
