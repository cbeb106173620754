#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "memory/caching_allocator.h"
#include "memory/replay.h"

// Reserved memory of one rank: its program replayed through the model of PyTorch's allocator, from loading over several
// iterations. Tensors are those of memory::Walk, in program order; all are allocated on the compute stream.
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
  std::int64_t allocated_peak_bytes = 0;  // of the iterations, while loading not counted
  std::int64_t iterations = 0, retries = 0;
  std::array<std::int64_t, kPhases> phase_reserved_bytes{}, phase_allocated_bytes{};
  std::optional<AllocationFailure> failure;
  // Reserved, and not held by a tensor at the allocated peak.
  std::int64_t fragmentation_bytes() const { return peak_bytes - allocated_peak_bytes; }
};

// The allocator of a rank under its scenario: settings of `memory`, and what is usable beside the memory outside.
AllocatorSettings allocator_settings(const plan::Plan& plan, std::int64_t rank);

struct StaticEvent;

class ReservedReplay {
 public:
  // Loads the rank: parameters, buffers, optimizer shards.
  ReservedReplay(const plan::Plan& plan, std::int64_t rank, const AllocatorSettings& settings);
  // One iteration with the program and rows of `plan`, which may differ from call to call; the first also makes the
  // optimizer's moments. Returns the highest reserved bytes in it.
  std::int64_t run(const plan::Plan& plan);
  Reserved result() const;
  std::int64_t rank() const { return result_.rank; }
  std::int64_t iterations() const { return result_.iterations; }

 private:
  using Handles = std::vector<CachingAllocator::Handle>;
  // The rank on the device as it is, and from the first time that it runs full a second one that never does.
  struct Lane {
    CachingAllocator allocator;
    std::vector<Handles> frames;  // [microbatch * slots + slot][tensor]
    Handles statics;
    bool failed = false;
    std::array<std::int64_t, kPhases> reserved{}, allocated{};
  };
  struct Place;
  template <class Store>
  void allocate(std::int64_t bytes, const Place& place, const Store& store);
  void hold(const std::vector<StaticEvent>& events, Phase phase);
  void observe(Phase phase);

  std::vector<Lane> lanes_;
  Reserved result_;
};

// A plan repeated, at least 3 times so that the allocator's cache has settled.
Reserved reserved_of(const plan::Plan& plan, std::int64_t rank, std::int64_t iterations = 3);

}  // namespace moeplan::memory
