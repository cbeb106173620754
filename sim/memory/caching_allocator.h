#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "memory/free_blocks.h"

// A model of PyTorch's CUDA caching allocator: what it takes from the device (reserved) for what a program holds
// (allocated). Rules and constants: c10/cuda/CUDACachingAllocator.cpp of PyTorch 2.x; docs/models.md, Reserved memory.
// Addresses are handed out in order and never again, so the same calls give the same layout.
namespace moeplan::memory {

struct AllocatorSettings {
  bool expandable_segments = false;
  std::optional<std::int64_t> max_split_bytes;  // none: every block may be split
  double garbage_collection_threshold = 0;      // share of capacity above which idle blocks are freed; 0: never
  std::int64_t roundup_power2_divisions = 0;    // 0 and 1: sizes are rounded to 512 B alone
  std::optional<std::int64_t> capacity_bytes;   // what the device gives this allocator; none: anything
};

// Bytes; a peak is the highest value so far.
struct AllocatorStats {
  std::int64_t allocated = 0, allocated_peak = 0;  // held by the program
  std::int64_t active = 0, active_peak = 0;        // that, and what waits for an event
  std::int64_t reserved = 0, reserved_peak = 0;    // taken from the device
  std::int64_t inactive_split = 0;  // free parts of segments in use, which cannot go back (not of expandable ones)
  std::int64_t segments = 0;        // of cudaMalloc; expandable ranges are not counted, as in PyTorch
  std::int64_t retries = 0;         // times that all cached memory was given back to the device to go on
  std::int64_t collected = 0;       // bytes that garbage collection gave back
};

class CachingAllocator {
 public:
  using Handle = std::int32_t;            // of one live allocation; used again after its release
  static constexpr Handle kNothing = -1;  // of 0 bytes
  explicit CachingAllocator(const AllocatorSettings& settings);

  // The block for `bytes` on a stream; nothing when the device is full and what is cached does not help (PyTorch's
  // out-of-memory error). Order of attempts: a cached block; a new segment; a new segment after freeing cached blocks
  // above max_split_bytes; a new segment after freeing every segment that is wholly free (a retry).
  std::optional<Handle> allocate(std::int64_t bytes, int stream = 0);
  // The first two attempts alone: nothing, where allocate would begin to free.
  std::optional<Handle> allocate_without_freeing(std::int64_t bytes, int stream = 0);
  void release(Handle handle);
  // The program lets go, but another stream uses the block until the event completes (record_stream): it stays active.
  // May be called with several events; the block is free when all are complete.
  void release_after(Handle handle, std::int64_t event);
  void complete(std::int64_t event);
  void empty_cache();  // frees every wholly free segment; waits for all events
  // From here on segments of a stream never go back, and its allocations free nobody else's: the private pool of
  // captured graphs, which replays use again. (PyTorch does not give cached memory back while it captures.)
  void keep_segments_of(int stream) { kept_stream_ = stream; }
  void lift_capacity() { limited_ = false; }  // from here on the device is never full

  const AllocatorStats& stats() const { return stats_; }
  // Everything that later answers depend on: blocks of all kinds by address, and who may take them. Of two equal
  // layouts the same calls make the same of every figure.
  std::vector<std::int64_t> layout() const;
  // Of a live block; its size is the rounded request, or more where the rest was not split off.
  std::int64_t size_of(Handle handle) const { return handle == kNothing ? 0 : at(handle).size; }
  std::int64_t address_of(Handle handle) const { return handle == kNothing ? 0 : at(handle).address; }
  std::int64_t rounded(std::int64_t bytes) const;                 // size of the block of a request
  static std::int64_t segment_bytes(std::int64_t rounded_bytes);  // size of the segment that it would get

  static constexpr std::int64_t kMinBlock = 512;
  static constexpr std::int64_t kSmallRequest = std::int64_t{1} << 20;  // the largest of the small pool
  static constexpr std::int64_t kSmallSegment = std::int64_t{2} << 20;
  static constexpr std::int64_t kOwnSegment = std::int64_t{10} << 20;  // from here on a segment of its own
  static constexpr std::int64_t kLargeSegment = std::int64_t{20} << 20;
  static constexpr std::int64_t kSegmentStep = std::int64_t{2} << 20;     // to which own segments are rounded
  static constexpr std::int64_t kOversizeSlack = std::int64_t{20} << 20;  // an oversize block may exceed by less

 private:
  using Id = std::int32_t;
  struct Block {
    std::int64_t address = 0, size = 0;
    Id previous = -1, next = -1;  // neighbours in the segment
    std::int32_t arena = 0;
    std::int32_t range = -1;  // expandable range, -1: a segment of cudaMalloc
    std::int32_t events = 0;  // that must complete
    std::int64_t since = 0;   // searches of the pool when it became free: its age, for garbage collection
    bool allocated = false, mapped = true;
  };
  struct Arena {  // one stream's part of a pool
    int stream = 0;
    bool small = false;
    FreeBlocks free;
    std::set<std::pair<std::int64_t, Id>> unmapped;  // by address
  };

  std::int32_t arena_of(std::int64_t size, int stream);
  Id new_block(std::int32_t arena, std::int64_t address, std::int64_t size, std::int32_t range);
  void give_up(Id id);
  void insert_free(Id id);
  void erase_free(Id id);
  bool is_split(Id id) const { return at(id).previous >= 0 || at(id).next >= 0; }
  bool idle(Id id) const { return id >= 0 && !at(id).allocated && at(id).events == 0; }
  std::optional<std::size_t> find_cached(std::int32_t arena, std::int64_t size);
  std::optional<Id> new_segment(std::int32_t arena, std::int64_t size);
  std::optional<Id> expand(std::int32_t arena, std::int64_t size);
  Id expandable_candidate(std::int32_t arena, std::int64_t size);
  bool map(Id id, std::int64_t size);
  void unmap(Id id);
  std::int64_t merge(Id into, Id neighbour);
  void join(Id into, Id neighbour);
  // `cached`: the block's place among the free ones of its pool; none where it is in no set.
  Handle hand_out(Id id, std::int64_t size, std::optional<std::size_t> cached = std::nullopt);
  void make_free(Id id);
  bool free_oversize(std::int32_t arena, std::int64_t size);
  void free_whole_segments();
  void collect_garbage();
  void release_segment(Id id);
  bool device_gives(std::int64_t bytes) const;
  void reserve(std::int64_t bytes);
  std::int64_t granule(std::int32_t arena) const;
  Block& at(Id id) { return blocks_[static_cast<std::size_t>(id)]; }
  const Block& at(Id id) const { return blocks_[static_cast<std::size_t>(id)]; }
  Arena& arena(std::int32_t index) { return arenas_[static_cast<std::size_t>(index)]; }

  AllocatorSettings settings_;
  bool limited_;
  AllocatorStats stats_;
  std::vector<Block> blocks_;
  std::vector<Id> spare_;  // of blocks_; of size 0
  std::vector<Arena> arenas_;
  std::vector<std::pair<std::int64_t, Id>> pending_;  // (event, block), in the order of their release
  std::array<std::int64_t, 2> searches_{};            // of the small and the large pool
  std::int64_t next_address_ = 0;
  int kept_stream_ = -1;
  std::int32_t ranges_ = 0;
};

}  // namespace moeplan::memory
