#include "memory/reserved.h"

#include <algorithm>
#include <utility>

#include "base/check.h"
#include "memory/static_tensors.h"
#include "plan/rank_rows.h"

namespace moeplan::memory {

struct ReservedReplay::Place {
  Phase phase = Phase::load;
  std::int64_t iteration = -1;
  std::int32_t visit = -1, op_index = -1;
  const std::string* op = nullptr;
  const std::string* tensor = nullptr;
  plan::TensorKind kind = plan::TensorKind::workspace;
  std::int64_t layer = -1, microbatch = -1;
};

namespace {

// Streams, as PyTorch's pools know them.
constexpr int kCompute = 0, kGraphs = 1, kExchange = 2, kFromHost = 3, kToHost = 4, kReduce = 5;
constexpr std::array<std::string_view, 6> kPoolNames = {"compute",   "graphs",  "exchange",
                                                        "from_host", "to_host", "reduce"};
// Launches that the driver queues before the host has to wait: no use of a tensor lies further back than that.
constexpr std::int64_t kLaunchQueue = 1024;

bool beside(const plan::Op& op, const plan::Visit& visit) {
  return op.stream == plan::Stream::ep && visit.lane != plan::Lane::alone;
}

// Of what an op allocates.
int pool_of(const plan::Op& op, const plan::Visit& visit, bool graphs) {
  if (graphs && op.in_graph) return kGraphs;
  if (beside(op, visit)) return kExchange;
  return (op.joins & plan::stream_bit(plan::Stream::from_host)) != 0 ? kFromHost : kCompute;
}

int stream_of(const plan::Op& op, const plan::Visit& visit) {
  if (op.stream == plan::Stream::to_host) return kToHost;
  if (op.stream == plan::Stream::from_host) return kFromHost;
  return beside(op, visit) ? kExchange : kCompute;
}

}  // namespace

std::string_view pool_name(int pool) {
  MOEPLAN_CHECK(pool >= 0 && static_cast<std::size_t>(pool) < kPoolNames.size(), "a pool of no stream");
  return kPoolNames[static_cast<std::size_t>(pool)];
}

AllocatorSettings allocator_settings(const plan::Plan& plan, std::int64_t rank) {
  const plan::StaticMemory& statics = plan.statics[static_cast<std::size_t>(plan.stage_of(rank))];
  AllocatorSettings settings;
  settings.expandable_segments = plan.scenario->memory.expandable_segments;
  settings.capacity_bytes = std::max<std::int64_t>(
      plan.scenario->usable_bytes() - statics.context_bytes - statics.communicator_bytes - statics.dispatcher_bytes, 0);
  return settings;
}

ReservedReplay::ReservedReplay(const plan::Plan& plan, std::int64_t rank, const AllocatorSettings& settings,
                               std::vector<MemoryEvent>* events)
    : events_(events) {
  result_.rank = rank;
  result_.stage = plan.stage_of(rank);
  lanes_.push_back(Lane{CachingAllocator(settings), {}, {}, {}, false, {}, {}});
  hold(load_events(plan, rank), Phase::load);
}

// Allocates in every lane that goes on; `store` keeps the handle in its lane.
template <class Store>
void ReservedReplay::allocate(std::int64_t bytes, int pool, const Place& place, const Store& store) {
  for (std::size_t i = 0; i < lanes_.size(); ++i) {
    if (lanes_[i].failed) continue;
    auto handle = lanes_[i].allocator.allocate_without_freeing(bytes, pool);
    if (!handle && lanes_.size() == 1) {
      // From here on the two differ: one frees its cache or fails, the other takes what it wants.
      Lane unlimited = lanes_[0];
      unlimited.allocator.lift_capacity();
      lanes_.push_back(std::move(unlimited));
    }
    if (!handle) handle = lanes_[i].allocator.allocate(bytes, pool);
    if (handle) {
      const Held held{*handle, pool};
      store(lanes_[i], held);
      if (i + 1 == lanes_.size()) tell(MemoryEvent::Action::alloc, place, held);
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

void ReservedReplay::tell(MemoryEvent::Action action, const Place& place, const Held& held) {
  if (events_ == nullptr || held.handle == CachingAllocator::kNothing) return;
  const CachingAllocator& allocator = lanes_.back().allocator;
  events_->push_back({action, place.phase, place.iteration, place.visit, place.op_index,
                      place.tensor == nullptr ? "" : *place.tensor, place.kind, held.pool,
                      allocator.size_of(held.handle), allocator.address_of(held.handle), allocator.stats().allocated,
                      allocator.stats().reserved});
}

void ReservedReplay::release(const Place& place, std::size_t tensor, bool waits) {
  const std::int64_t event = events_so_far_;
  for (Lane& lane : lanes_) {
    if (lane.failed) continue;
    const Held held = std::exchange(lane.frames[tensor], Held{});
    const bool told =
        (events_ != nullptr || waits) && &lane == &lanes_.back() && held.handle != CachingAllocator::kNothing;
    const std::int64_t before = lane.allocator.stats().allocated, address = lane.allocator.address_of(held.handle);
    if (waits)
      lane.allocator.release_after(held.handle, event);
    else
      lane.allocator.release(held.handle);
    if (!told) continue;
    using Action = MemoryEvent::Action;
    const AllocatorStats& stats = lane.allocator.stats();
    MemoryEvent let_go{waits ? Action::free_requested : Action::free,
                       place.phase,
                       place.iteration,
                       place.visit,
                       place.op_index,
                       *place.tensor,
                       place.kind,
                       held.pool,
                       before - stats.allocated,
                       address,
                       stats.allocated,
                       stats.reserved};
    if (events_ != nullptr) events_->push_back(let_go);
    if (waits) waiting_.push_back({event, launches_, std::move(let_go)});
  }
}

void ReservedReplay::complete_waiting(bool all) {
  std::size_t done = 0;
  for (; done < waiting_.size(); ++done) {
    Waiting& one = waiting_[done];
    if (!all && launches_ - one.launches < kLaunchQueue) break;
    if (done == 0 || one.event != waiting_[done - 1].event)
      for (Lane& lane : lanes_)
        if (!lane.failed) lane.allocator.complete(one.event);
    if (events_ == nullptr) continue;
    one.told.action = MemoryEvent::Action::free_completed;
    one.told.allocated_bytes = lanes_.back().allocator.stats().allocated;
    one.told.reserved_bytes = lanes_.back().allocator.stats().reserved;
    events_->push_back(one.told);
  }
  waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(done));
}

// Capturing empties the cache, and allocates from a pool that is never given back: a graph that is replayed writes
// where it wrote before.
void ReservedReplay::start_graphs(const plan::Plan& plan) {
  if (plan.scenario->training.cuda_graphs == scenario::CudaGraphs::none) return;
  graphs_ = true;
  for (Lane& lane : lanes_) {
    if (lane.failed) continue;
    lane.allocator.empty_cache();
    lane.allocator.keep_segments_of(kGraphs);
  }
}

void ReservedReplay::hold(const std::vector<StaticEvent>& events, Phase phase, std::int32_t visit) {
  const std::size_t first = lanes_.back().statics.size();
  Place place;
  place.phase = phase;
  place.iteration = phase == Phase::load ? -1 : result_.iterations;
  place.visit = visit;
  place.op_index = visit < 0 ? -1 : 0;
  for (const StaticEvent& event : events) {
    if (event.releases >= 0) {
      for (Lane& lane : lanes_)
        if (!lane.failed) {
          const Held held = lane.statics[first + static_cast<std::size_t>(event.releases)];
          const StaticEvent& made = events[static_cast<std::size_t>(event.releases)];
          place.tensor = &made.name;
          place.kind = made.kind;
          drop(lane, held, place);
        }
      for (Lane& lane : lanes_) lane.statics.push_back(Held{});
      continue;
    }
    place.tensor = &event.name;
    place.kind = event.kind;
    allocate(event.bytes, kCompute, place, [](Lane& lane, const Held& held) { lane.statics.push_back(held); });
    observe(phase);
  }
}

void ReservedReplay::drop(Lane& lane, const Held& held, const Place& place) {
  const std::int64_t address = lane.allocator.address_of(held.handle), bytes = lane.allocator.size_of(held.handle);
  lane.allocator.release(held.handle);
  if (events_ == nullptr || &lane != &lanes_.back()) return;
  const AllocatorStats& stats = lane.allocator.stats();
  events_->push_back({MemoryEvent::Action::free, place.phase, place.iteration, place.visit, place.op_index,
                      *place.tensor, place.kind, held.pool, bytes, address, stats.allocated, stats.reserved});
}

void ReservedReplay::drop_of_step(Place place) {
  place.phase = Phase::steady_iteration;
  for (Lane& lane : lanes_) {
    for (const auto& [key, made] : lane.of_step) {
      place.tensor = &made.name;
      place.kind = made.kind;
      drop(lane, made.held, place);
    }
    lane.of_step.clear();
  }
}

std::int64_t ReservedReplay::run(const plan::Plan& plan) {
  const plan::Program& program = plan.program_of(result_.rank);
  const plan::RankRows rows(plan, result_.rank);
  const bool first = result_.iterations == 0;
  frame_at_.assign(static_cast<std::size_t>(program.slots * plan.scenario->microbatches()), -1);
  for (Lane& lane : lanes_) lane.frames.clear();
  Place place;
  place.iteration = result_.iterations;
  drop_of_step(place);
  if (result_.iterations == 1) start_graphs(plan);
  std::int64_t highest = 0;
  for (const plan::Visit& visit : program.visits) {
    ++place.visit;
    const plan::Block& block = plan.blocks[static_cast<std::size_t>(visit.block)];
    const bool step = block.name == "optimizer";
    place.phase = step ? (first ? Phase::first_optimizer_step : Phase::steady_optimizer_step)
                       : (first ? Phase::first_iteration : Phase::steady_iteration);
    place.layer = visit.layer;
    place.microbatch = visit.microbatch;
    if (step && first) hold(moment_events(plan, result_.rank), place.phase, place.visit);
    std::ptrdiff_t& first_tensor = frame_at_[static_cast<std::size_t>(visit.microbatch * program.slots + visit.slot)];
    if (first_tensor < 0) {
      first_tensor = static_cast<std::ptrdiff_t>(lanes_.back().frames.size());
      for (Lane& lane : lanes_) lane.frames.resize(lane.frames.size() + block.tensors.size());
    }
    const auto frame = static_cast<std::size_t>(first_tensor);
    const auto& ops = plan::ops_of(block, visit.direction);
    const std::size_t end = std::min<std::size_t>(visit.end_op, ops.size());
    for (std::size_t o = visit.first_op; o < end; ++o) {
      const plan::Op& op = ops[o];
      place.op = &op.name;
      place.op_index = static_cast<std::int32_t>(o);
      const int pool = pool_of(op, visit, graphs_), stream = stream_of(op, visit);
      if (!waiting_.empty()) complete_waiting(false);
      for (const plan::TensorId id : op.allocates) {
        place.tensor = &block.tensors[id].name;
        place.kind = block.tensors[id].kind;
        if (block.tensors[id].of_step) {
          const std::pair key(visit.slot, id);
          if (!lanes_.back().of_step.contains(key))
            allocate(rows.bytes(block.tensors[id].size, visit), kReduce, place, [&](Lane& lane, const Held& held) {
              lane.of_step[key] = {held, *place.tensor, place.kind};
            });
          continue;
        }
        allocate(rows.bytes(block.tensors[id].size, visit), pool, place,
                 [&](Lane& lane, const Held& held) { lane.frames[frame + id] = held; });
      }
      observe(place.phase);
      ++events_so_far_;
      for (const plan::TensorId id : op.frees) {
        place.tensor = &block.tensors[id].name;
        place.kind = block.tensors[id].kind;
        // Graphs run on the compute stream, and know the order of what they hold.
        const int made = lanes_.back().frames[frame + id].pool;
        release(place, frame + id, made != kGraphs && made != stream);
      }
      launches_ += graphs_ && op.captured ? 0 : op.launches;
      if (op.host_sync) complete_waiting(true);
      highest = std::max(highest, lanes_.back().allocator.stats().reserved);
    }
  }
  complete_waiting(true);
  ++result_.iterations;
  if (lanes_.size() == 2 && !lanes_[0].failed) highest = std::min(highest, lanes_[0].allocator.stats().reserved_peak);
  highest_bytes_ = highest;
  compare_layouts();
  return highest;
}

void ReservedReplay::compare_layouts() {
  // With two lanes a device ran full: figures of the way back count too.
  std::vector<std::int64_t> now = lanes_.size() == 1 ? lanes_[0].allocator.layout() : std::vector<std::int64_t>{};
  settled_ = lanes_.size() == 1 && result_.iterations > 1 && now == layout_;
  layout_ = std::move(now);
}

std::int64_t ReservedReplay::repeat(const plan::Plan& plan) {
  if (!settled_ || events_ != nullptr) return run(plan);
  ++result_.iterations;
  return highest_bytes_;
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
  for (std::int64_t i = 0; i < std::max<std::int64_t>(iterations, 3); ++i)
    i == 0 ? replay.run(plan) : replay.repeat(plan);
  return replay.result();
}

}  // namespace moeplan::memory
