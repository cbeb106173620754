#include "memory/reserved.h"

#include <algorithm>

#include "base/check.h"
#include "memory/static_tensors.h"

namespace moeplan::memory {

struct ReservedReplay::Place {
  Phase phase = Phase::load;
  std::int64_t iteration = -1;
  const std::string* op = nullptr;
  const std::string* tensor = nullptr;
  std::int64_t layer = -1, microbatch = -1;
};

AllocatorSettings allocator_settings(const plan::Plan& plan, std::int64_t rank) {
  const plan::StaticMemory& statics = plan.statics[static_cast<std::size_t>(plan.stage_of(rank))];
  AllocatorSettings settings;
  settings.expandable_segments = plan.scenario->memory.expandable_segments;
  settings.capacity_bytes = std::max<std::int64_t>(
      plan.scenario->usable_bytes() - statics.context_bytes - statics.communicator_bytes - statics.dispatcher_bytes, 0);
  return settings;
}

ReservedReplay::ReservedReplay(const plan::Plan& plan, std::int64_t rank, const AllocatorSettings& settings) {
  result_.rank = rank;
  result_.stage = plan.stage_of(rank);
  lanes_.push_back(Lane{CachingAllocator(settings), {}, {}, false, {}, {}});
  hold(load_events(plan, rank), Phase::load);
}

// Allocates in every lane that goes on; `store` keeps the handle in its lane.
template <class Store>
void ReservedReplay::allocate(std::int64_t bytes, const Place& place, const Store& store) {
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    if (lanes_[i].failed) continue;
    auto handle = lanes_[i].allocator.allocate_without_freeing(bytes);
    if (!handle && lanes_.size() == 1) {
      // From here on the two differ: one frees its cache or fails, the other takes what it wants.
      Lane unlimited = lanes_[0];
      unlimited.allocator.lift_capacity();
      lanes_.push_back(std::move(unlimited));
    }
    if (!handle) handle = lanes_[i].allocator.allocate(bytes);
    if (handle) {
      store(lanes_[i], *handle);
      continue;
    }
    const AllocatorStats& stats = lanes_[i].allocator.stats();
    lanes_[i].failed = true;
    result_.failure = AllocationFailure{place.iteration,
                                        place.phase,
                                        place.op == nullptr ? "" : *place.op,
                                        place.tensor == nullptr ? "" : *place.tensor,
                                        place.layer,
                                        place.microbatch,
                                        bytes,
                                        stats.allocated,
                                        stats.reserved};
  }
}

void ReservedReplay::observe(Phase phase) {
  const auto index = static_cast<std::size_t>(phase);
  for (Lane& lane : lanes_) {
    if (lane.failed) continue;
    lane.reserved[index] = std::max(lane.reserved[index], lane.allocator.stats().reserved);
    lane.allocated[index] = std::max(lane.allocated[index], lane.allocator.stats().allocated);
  }
}

void ReservedReplay::hold(const std::vector<StaticEvent>& events, Phase phase) {
  const std::size_t first = lanes_.back().statics.size();
  Place place;
  place.phase = phase;
  place.iteration = phase == Phase::load ? -1 : result_.iterations;
  for (const StaticEvent& event : events) {
    if (event.releases >= 0) {
      for (Lane& lane : lanes_)
        if (!lane.failed) lane.allocator.release(lane.statics[first + static_cast<std::size_t>(event.releases)]);
      for (Lane& lane : lanes_) lane.statics.push_back(CachingAllocator::kNothing);
      continue;
    }
    place.tensor = &event.name;
    allocate(event.bytes, place, [](Lane& lane, CachingAllocator::Handle handle) { lane.statics.push_back(handle); });
    observe(phase);
  }
}

std::int64_t ReservedReplay::run(const plan::Plan& plan) {
  const plan::Program& program = plan.program_of(result_.rank);
  const bool first = result_.iterations == 0;
  for (Lane& lane : lanes_)
    lane.frames.assign(static_cast<std::size_t>(program.slots * plan.scenario->microbatches()), {});
  Place place;
  place.iteration = result_.iterations;
  std::int64_t highest = 0;
  for (const plan::Visit& visit : program.visits) {
    const plan::Block& block = plan.blocks[static_cast<std::size_t>(visit.block)];
    const bool step = block.name == "optimizer";
    place.phase = step ? (first ? Phase::first_optimizer_step : Phase::steady_optimizer_step)
                       : (first ? Phase::first_iteration : Phase::steady_iteration);
    place.layer = visit.layer;
    place.microbatch = visit.microbatch;
    if (step && first) hold(moment_events(plan, result_.rank), place.phase);
    const auto frame = static_cast<std::size_t>(visit.microbatch * program.slots + visit.slot);
    for (Lane& lane : lanes_)
      if (lane.frames[frame].empty()) lane.frames[frame].assign(block.tensors.size(), CachingAllocator::kNothing);
    const auto& ops = plan::ops_of(block, visit.direction);
    const std::size_t end = std::min<std::size_t>(visit.end_op, ops.size());
    for (std::size_t o = visit.first_op; o < end; ++o) {
      const plan::Op& op = ops[o];
      place.op = &op.name;
      for (const plan::TensorId id : op.allocates) {
        place.tensor = &block.tensors[id].name;
        allocate(plan.bytes(block.tensors[id].size, visit, result_.rank), place,
                 [&](Lane& lane, CachingAllocator::Handle handle) { lane.frames[frame][id] = handle; });
      }
      observe(place.phase);
      for (Lane& lane : lanes_)
        if (!lane.failed)
          for (const plan::TensorId id : op.frees)
            lane.allocator.release(std::exchange(lane.frames[frame][id], CachingAllocator::kNothing));
      highest = std::max(highest, lanes_.back().allocator.stats().reserved);
    }
  }
  ++result_.iterations;
  if (lanes_.size() == 2 && !lanes_[0].failed) highest = std::min(highest, lanes_[0].allocator.stats().reserved_peak);
  return highest;
}

Reserved ReservedReplay::result() const {
  Reserved result = result_;
  const Lane& lane = lanes_.front().failed ? lanes_.back() : lanes_.front();
  result.peak_bytes = lane.allocator.stats().reserved_peak;
  result.end_bytes = lane.allocator.stats().reserved;
  result.retries = lanes_.front().allocator.stats().retries;
  result.phase_reserved_bytes = lane.reserved;
  result.phase_allocated_bytes = lane.allocated;
  for (std::size_t phase = 1; phase < kPhases; ++phase)
    result.allocated_peak_bytes = std::max(result.allocated_peak_bytes, lane.allocated[phase]);
  return result;
}

Reserved reserved_of(const plan::Plan& plan, std::int64_t rank, std::int64_t iterations) {
  ReservedReplay replay(plan, rank, allocator_settings(plan, rank));
  for (std::int64_t i = 0; i < std::max<std::int64_t>(iterations, 3); ++i) replay.run(plan);
  return replay.result();
}

}  // namespace moeplan::memory
