#include <algorithm>
#include <iterator>

#include "memory/caching_allocator.h"

// The ways in which cached memory goes back to the device: before an allocation that would fail, by garbage collection,
// and when the program asks for it.
namespace moeplan::memory {

void CachingAllocator::empty_cache() { free_whole_segments(); }

void CachingAllocator::release_segment(Id id) {
  erase_free(id);
  stats_.reserved -= at(id).size;
  --stats_.segments;
  spare_.push_back(id);
}

// One block above max_split_bytes that is large enough, or several from the largest on. Of this stream's pool alone.
bool CachingAllocator::free_oversize(std::int32_t index, std::int64_t size) {
  if (!settings_.max_split_bytes) return false;
  const std::int64_t limit = *settings_.max_split_bytes, wanted = std::max(size, limit);
  if (arena(index).stream == kept_stream_) return false;
  auto& free = arena(index).free;
  const auto it = free.lower_bound(BySize{wanted, -1, -1});
  if (it != free.end() && at(it->id).range < 0) {
    release_segment(it->id);
    return true;
  }
  std::vector<Id> chosen;
  std::int64_t released = 0;
  for (auto back = std::make_reverse_iterator(it); back != free.rend() && released < wanted && back->size >= limit;
       ++back)
    if (at(back->id).range < 0) {
      released += back->size;
      chosen.push_back(back->id);
    }
  for (const Id id : chosen) release_segment(id);
  return released >= wanted;
}

void CachingAllocator::free_whole_segments() {
  // The device is waited for, so every event has completed.
  std::vector<std::pair<std::int64_t, Id>> pending;
  pending.swap(pending_);
  for (const auto& [event, id] : pending)
    if (--at(id).events == 0) make_free(id);
  for (Arena& home : arenas_) {
    if (home.stream == kept_stream_) continue;
    const std::vector<BySize> list(home.free.begin(), home.free.end());
    for (const BySize& entry : list) {
      if (at(entry.id).range >= 0)
        unmap(entry.id);
      else if (!is_split(entry.id))
        release_segment(entry.id);
    }
  }
}

// Frees whole segments of the large pool that stayed idle longer than the average, until reserved is below the
// threshold or none is left.
void CachingAllocator::collect_garbage() {
  if (settings_.garbage_collection_threshold <= 0 || !settings_.capacity_bytes) return;
  const auto threshold = static_cast<std::int64_t>(settings_.garbage_collection_threshold *
                                                   static_cast<double>(*settings_.capacity_bytes));
  if (stats_.reserved <= threshold) return;
  const std::int64_t target = stats_.reserved - threshold;
  auto age = [&](Id id) { return searches_[1] - at(id).since; };
  std::vector<Id> idle_segments;
  std::int64_t total_age = 0, reclaimed = 0;
  for (Arena& home : arenas_)
    if (!home.small && home.stream != kept_stream_)
      for (const BySize& entry : home.free)
        if (!is_split(entry.id) && at(entry.id).range < 0) {
          idle_segments.push_back(entry.id);
          total_age += age(entry.id);
        }
  bool freed = true;
  while (reclaimed < target && freed && !idle_segments.empty()) {
    const double average = static_cast<double>(total_age) / static_cast<double>(idle_segments.size());
    freed = false;
    std::vector<Id> left;
    for (const Id id : idle_segments) {
      if (static_cast<double>(age(id)) < average) {
        left.push_back(id);
        continue;
      }
      freed = true;
      reclaimed += at(id).size;
      total_age -= age(id);
      release_segment(id);
    }
    idle_segments.swap(left);
  }
  stats_.collected += reclaimed;
}

}  // namespace moeplan::memory
