#include <algorithm>

#include "memory/caching_allocator.h"

// The ways in which cached memory goes back to the device: before an allocation that would fail, by garbage collection,
// and when the program asks for it.
namespace moeplan::memory {

void CachingAllocator::empty_cache() { free_whole_segments(); }

void CachingAllocator::release_segment(Id id) {
  erase_free(id);
  stats_.reserved -= at(id).size;
  --stats_.segments;
  give_up(id);
}

// One block above max_split_bytes that is large enough, or several from the largest on. Of this stream's pool alone.
bool CachingAllocator::free_oversize(std::int32_t index, std::int64_t size) {
  if (!settings_.max_split_bytes) return false;
  const std::int64_t limit = *settings_.max_split_bytes, wanted = std::max(size, limit);
  if (arena(index).stream == kept_stream_) return false;
  const FreeBlocks& free = arena(index).free;
  const std::size_t first = free.lower_bound(wanted);
  if (first < free.size() && at(free.id_at(first)).range < 0) {
    release_segment(free.id_at(first));
    return true;
  }
  std::vector<Id> chosen;
  std::int64_t released = 0;
  for (std::size_t place = first; place > 0 && released < wanted && free.size_at(place - 1) >= limit; --place)
    if (at(free.id_at(place - 1)).range < 0) {
      released += free.size_at(place - 1);
      chosen.push_back(free.id_at(place - 1));
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
    const FreeBlocks list = home.free;
    for (std::size_t place = 0; place < list.size(); ++place) {
      const Id id = list.id_at(place);
      if (at(id).range >= 0)
        unmap(id);
      else if (!is_split(id))
        release_segment(id);
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
      for (std::size_t place = 0; place < home.free.size(); ++place) {
        const Id id = home.free.id_at(place);
        if (is_split(id) || at(id).range >= 0) continue;
        idle_segments.push_back(id);
        total_age += age(id);
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
