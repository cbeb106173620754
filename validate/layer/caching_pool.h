#pragma once
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <new>
#include <set>
#include <utility>

// A caching allocator for one stream, by the rules of PyTorch's that sim/memory/caching_allocator.h models: sizes in
// whole 512 B; segments of 2 MiB for what is up to 1 MiB, of 20 MiB below 10 MiB, else of their own in whole 2 MiB; the
// smallest free block that is large enough, split where enough is left over. A layer run takes its tensors from here.
namespace moeplan::layer {

struct PoolStats {
  std::int64_t allocated = 0, allocated_peak = 0;  // blocks that were handed out
  std::int64_t reserved = 0, reserved_peak = 0;    // segments
};

// Source: `void* take(std::size_t bytes)`, null where there is no more, and `void give(void*)`.
template <class Source>
class CachingPool {
 public:
  explicit CachingPool(Source& source) : source_(source) {}
  ~CachingPool() {
    for (const auto& [address, block] : blocks_)
      if (block.first) source_.give(address);
  }
  CachingPool(const CachingPool&) = delete;
  CachingPool& operator=(const CachingPool&) = delete;

  // Null for 0 bytes. Throws std::bad_alloc where the source has no more, even after the idle segments went back.
  void* take(std::int64_t bytes) {
    if (bytes <= 0) return nullptr;
    const std::int64_t size = rounded(bytes);
    auto& free = free_of(size);
    auto found = free.lower_bound({size, nullptr});
    if (found == free.end()) found = free.insert({segment_bytes(size), new_segment(size)}).first;
    char* address = found->second;
    const std::int64_t rest = found->first - size;
    free.erase(found);
    Block& block = blocks_.at(address);
    if (rest >= (size <= kSmallRequest ? kMinBlock : kSmallRequest + 1)) {
      block.size = size;
      blocks_[address + size] = Block{rest, false, true, block.small};
      free.insert({rest, address + size});
    }
    block.free = false;
    stats_.allocated += block.size;
    if (stats_.allocated > stats_.allocated_peak) stats_.allocated_peak = stats_.allocated;
    return address;
  }

  void give(void* pointer) {
    if (pointer == nullptr) return;
    auto block = blocks_.find(static_cast<char*>(pointer));
    stats_.allocated -= block->second.size;
    block->second.free = true;
    const auto next = std::next(block);
    if (next != blocks_.end() && !next->second.first && next->second.free) join(block, next);
    if (!block->second.first && std::prev(block)->second.free) {
      const auto before = std::prev(block);
      free_of(before->second).erase({before->second.size, before->first});
      before->second.size += block->second.size;
      blocks_.erase(block);
      block = before;
    }
    free_of(block->second).insert({block->second.size, block->first});
  }

  // Segments of which nothing is in use go back to the source.
  void give_back_idle() {
    for (auto block = blocks_.begin(); block != blocks_.end();) {
      const auto next = std::next(block);
      const bool whole = block->second.first && (next == blocks_.end() || next->second.first);
      if (whole && block->second.free) {
        free_of(block->second).erase({block->second.size, block->first});
        stats_.reserved -= block->second.size;
        source_.give(block->first);
        blocks_.erase(block);
      }
      block = next;
    }
  }

  void start_peaks() {
    stats_.allocated_peak = stats_.allocated;
    stats_.reserved_peak = stats_.reserved;
  }
  const PoolStats& stats() const { return stats_; }

 private:
  static constexpr std::int64_t kMinBlock = 512, kMiB = std::int64_t{1} << 20, kSmallRequest = kMiB;
  struct Block {
    std::int64_t size = 0;
    bool first = false;  // of its segment
    bool free = true, small = false;
  };
  using Blocks = std::map<char*, Block>;
  using Free = std::set<std::pair<std::int64_t, char*>>;

  static std::int64_t round_up(std::int64_t bytes, std::int64_t step) { return (bytes + step - 1) / step * step; }
  static std::int64_t rounded(std::int64_t bytes) { return round_up(bytes, kMinBlock); }
  static std::int64_t segment_bytes(std::int64_t size) {
    if (size <= kSmallRequest) return 2 * kMiB;
    return size < 10 * kMiB ? 20 * kMiB : round_up(size, 2 * kMiB);
  }
  Free& free_of(std::int64_t size) { return size <= kSmallRequest ? small_ : large_; }
  Free& free_of(const Block& block) { return block.small ? small_ : large_; }

  char* new_segment(std::int64_t size) {
    const std::int64_t bytes = segment_bytes(size);
    void* memory = source_.take(static_cast<std::size_t>(bytes));
    if (memory == nullptr) {
      give_back_idle();
      memory = source_.take(static_cast<std::size_t>(bytes));
    }
    if (memory == nullptr) throw std::bad_alloc();
    stats_.reserved += bytes;
    if (stats_.reserved > stats_.reserved_peak) stats_.reserved_peak = stats_.reserved;
    blocks_[static_cast<char*>(memory)] = Block{bytes, true, true, size <= kSmallRequest};
    return static_cast<char*>(memory);
  }

  void join(typename Blocks::iterator block, typename Blocks::iterator next) {
    free_of(next->second).erase({next->second.size, next->first});
    block->second.size += next->second.size;
    blocks_.erase(next);
  }

  Source& source_;
  Blocks blocks_;
  Free small_, large_;
  PoolStats stats_;
};

}  // namespace moeplan::layer
