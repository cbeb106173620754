#pragma once
#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "memory/caching_allocator.h"
#include "memory/replay.h"

// Reserved memory of one rank: its program replayed through the model of PyTorch's allocator, from loading over several
// iterations. Tensors are those of memory::Walk, in program order. Pools are those of the streams that allocate: the
// compute stream, exchanges that run under another microbatch, copies back from the host, and captured graphs, whose
// pool exists from the second iteration on (the first runs without). A tensor that another stream used goes back to its
// pool when the host has seen that stream get there (record_stream). docs/models.md, Reserved memory.
namespace moeplan::memory {

// Out of memory: what was asked for, where.
struct AllocationFailure {
  std::int64_t iteration = -1;  // -1: while loading
  Phase phase = Phase::load;
  std::string op, tensor;  // op: "" while loading
  std::int64_t layer = -1, microbatch = -1;
  std::int64_t bytes = 0, allocated_bytes = 0, reserved_bytes = 0;
};

struct Reserved {
  std::int64_t rank = 0, stage = 0;
  // Within the limit, where the rank does not fail; else what it takes of a device that is large enough.
  std::int64_t peak_bytes = 0, end_bytes = 0;
  std::int64_t allocated_peak_bytes = 0;  // of the iterations; while loading: phase_allocated_bytes
  std::int64_t iterations = 0, retries = 0;
  std::array<std::int64_t, kPhases> phase_reserved_bytes{}, phase_allocated_bytes{};
  std::optional<AllocationFailure> failure;
  // Reserved, and not held by a tensor at the allocated peak.
  std::int64_t fragmentation_bytes() const { return peak_bytes - allocated_peak_bytes; }
};

// The allocator of a rank under its scenario: settings of `memory`, and what is usable beside the memory outside.
AllocatorSettings allocator_settings(const plan::Plan& plan, std::int64_t rank);

struct StaticEvent;

// Of the stream whose blocks they are: "compute", "graphs", "exchange", "from_host", "to_host", "reduce".
std::string_view pool_name(int pool);

// One allocation or release, as PyTorch's memory history tells it.
struct MemoryEvent {
  enum class Action : std::uint8_t { alloc, free, free_requested, free_completed };
  Action action = Action::alloc;  // free: both at once; the other two where a stream beside is waited for
  Phase phase = Phase::load;
  std::int64_t iteration = -1;       // -1: while loading
  std::int32_t visit = -1, op = -1;  // of the program; -1: of what a rank holds all the time
  std::string tensor;
  plan::TensorKind kind = plan::TensorKind::workspace;
  int pool = 0;                                          // pool_name
  std::int64_t bytes = 0, address = 0;                   // of the block
  std::int64_t allocated_bytes = 0, reserved_bytes = 0;  // after it
};

class ReservedReplay {
 public:
  // Loads the rank: parameters, buffers, optimizer shards. Events are added to `events`, where it is not null: of the
  // device that is large enough, once the real one runs full.
  ReservedReplay(const plan::Plan& plan, std::int64_t rank, const AllocatorSettings& settings,
                 std::vector<MemoryEvent>* events = nullptr);
  // One iteration with the program and rows of `plan`, which may differ from call to call; the first also makes the
  // optimizer's moments. Returns the highest reserved bytes in it.
  std::int64_t run(const plan::Plan& plan);
  // Once more the plan of the last run, which must not be the first; where that left the allocator as it had found it,
  // the iteration is counted and not gone through: it would be equal. (Told events are never left out.)
  std::int64_t repeat(const plan::Plan& plan);
  Reserved result() const;
  std::int64_t rank() const { return result_.rank; }
  std::int64_t iterations() const { return result_.iterations; }

 private:
  struct Held {
    CachingAllocator::Handle handle = CachingAllocator::kNothing;
    int pool = 0;
  };
  using Handles = std::vector<Held>;
  // A tensor of all microbatches, held until the next iteration begins.
  struct OfStep {
    Held held;
    std::string name;
    plan::TensorKind kind = plan::TensorKind::gradients;
  };
  // A tensor that the program let go of and a stream beside still uses.
  struct Waiting {
    std::int64_t event = 0, launches = 0;  // by then
    MemoryEvent told;
  };
  // The rank on the device as it is, and from the first time that it runs full a second one that never does.
  struct Lane {
    CachingAllocator allocator;
    Handles frames;  // [microbatch * slots + slot][tensor], in the order of their first visits
    Handles statics;
    std::map<std::pair<std::int32_t, plan::TensorId>, OfStep> of_step;  // by slot and tensor
    bool failed = false;
    std::array<std::int64_t, kPhases> reserved{}, allocated{};
  };
  struct Place;
  template <class Store>
  void allocate(std::int64_t bytes, int pool, const Place& place, const Store& store);
  void release(const Place& place, std::size_t tensor, bool waits);  // place in Lane::frames
  void complete_waiting(bool all);
  void compare_layouts();
  void tell(MemoryEvent::Action action, const Place& place, const Held& held);
  // Released at once, and told.
  void drop(Lane& lane, const Held& held, const Place& place);
  void drop_of_step(Place place);
  void start_graphs(const plan::Plan& plan);
  void hold(const std::vector<StaticEvent>& events, Phase phase, std::int32_t visit = -1);
  void observe(Phase phase);

  std::vector<Lane> lanes_;
  std::vector<std::ptrdiff_t> frame_at_;  // in Lane::frames, by microbatch * slots + slot; -1: not visited yet
  std::vector<std::int64_t> layout_;      // after the last run, while one lane is there
  bool settled_ = false;                  // it was so before that run, too
  std::int64_t highest_bytes_ = 0;        // in the last run
  std::vector<Waiting> waiting_;
  std::int64_t launches_ = 0, events_so_far_ = 0;  // issued by the host, of the iterations
  bool graphs_ = false;                            // captured: they allocate from their own pool
  std::vector<MemoryEvent>* events_ = nullptr;
  Reserved result_;
};

// A plan repeated, at least 3 times so that the allocator's cache has settled.
Reserved reserved_of(const plan::Plan& plan, std::int64_t rank, std::int64_t iterations = 3);

}  // namespace moeplan::memory
