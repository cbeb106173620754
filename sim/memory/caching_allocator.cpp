#include "memory/caching_allocator.h"

#include <algorithm>
#include <bit>

#include "base/check.h"
#include "base/checked.h"

namespace moeplan::memory {

CachingAllocator::CachingAllocator(const AllocatorSettings& settings)
    : settings_(settings), limited_(settings.capacity_bytes.has_value()) {}

std::int64_t CachingAllocator::rounded(std::int64_t bytes) const {
  if (bytes < kMinBlock) return kMinBlock;
  const std::int64_t divisions = settings_.roundup_power2_divisions;
  if (divisions > 1 && bytes > kMinBlock * divisions) {
    // Up to the next of `divisions` equal steps between two powers of two.
    const auto floor = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(bytes)));
    if (floor == bytes) return bytes;
    const std::int64_t step = floor / static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(divisions)));
    return base::round_up(bytes, step);
  }
  return base::round_up(bytes, kMinBlock);
}

std::int64_t CachingAllocator::segment_bytes(std::int64_t rounded_bytes) {
  if (rounded_bytes <= kSmallRequest) return kSmallSegment;
  if (rounded_bytes < kOwnSegment) return kLargeSegment;
  return base::round_up(rounded_bytes, kSegmentStep);
}

std::optional<CachingAllocator::Handle> CachingAllocator::allocate_without_freeing(std::int64_t bytes, int stream) {
  if (bytes <= 0) return kNothing;
  const std::int64_t size = rounded(bytes);
  const std::int32_t arena = arena_of(size, stream);
  if (const auto cached = find_cached(arena, size))
    return hand_out(this->arena(arena).free.id_at(*cached), size, cached);
  collect_garbage();
  const std::optional<Id> found = new_segment(arena, size);
  if (!found) return std::nullopt;
  return hand_out(*found, size);
}

std::optional<CachingAllocator::Handle> CachingAllocator::allocate(std::int64_t bytes, int stream) {
  if (auto handle = allocate_without_freeing(bytes, stream)) return handle;
  if (stream == kept_stream_) return std::nullopt;
  const std::int64_t size = rounded(bytes);
  const std::int32_t arena = arena_of(size, stream);
  std::optional<Id> found;
  if (free_oversize(arena, size)) found = new_segment(arena, size);
  if (!found) {
    free_whole_segments();
    ++stats_.retries;
    found = new_segment(arena, size);
  }
  if (!found) return std::nullopt;
  return hand_out(*found, size);
}

void CachingAllocator::release(Handle handle) {
  if (handle == kNothing) return;
  MOEPLAN_CHECK(at(handle).allocated, "a block is released twice");
  at(handle).allocated = false;
  stats_.allocated -= at(handle).size;
  make_free(handle);
}

void CachingAllocator::release_after(Handle handle, std::int64_t event) {
  if (handle == kNothing) return;
  Block& block = at(handle);
  MOEPLAN_CHECK(block.allocated || block.events > 0, "a block is released twice");
  if (block.allocated) stats_.allocated -= block.size;
  block.allocated = false;
  ++block.events;
  pending_.emplace_back(event, handle);
}

void CachingAllocator::complete(std::int64_t event) {
  std::vector<Id> done;
  std::erase_if(pending_, [&](const std::pair<std::int64_t, Id>& entry) {
    if (entry.first != event) return false;
    done.push_back(entry.second);
    return true;
  });
  for (const Id id : done)
    if (--at(id).events == 0) make_free(id);
}

std::int32_t CachingAllocator::arena_of(std::int64_t size, int stream) {
  const bool small = size <= kSmallRequest;
  for (std::size_t i = 0; i < arenas_.size(); ++i)
    if (arenas_[i].stream == stream && arenas_[i].small == small) return static_cast<std::int32_t>(i);
  arenas_.push_back(Arena{stream, small, {}, {}});
  return static_cast<std::int32_t>(arenas_.size()) - 1;
}

CachingAllocator::Id CachingAllocator::new_block(std::int32_t arena, std::int64_t address, std::int64_t size,
                                                 std::int32_t range) {
  Id id = 0;
  if (spare_.empty()) {
    id = static_cast<Id>(blocks_.size());
    blocks_.emplace_back();
  } else {
    id = spare_.back();
    spare_.pop_back();
  }
  Block block;
  block.address = address;
  block.size = size;
  block.arena = arena;
  block.range = range;
  at(id) = block;
  return id;
}

void CachingAllocator::give_up(Id id) {
  at(id).size = 0;
  spare_.push_back(id);
}

void CachingAllocator::insert_free(Id id) {
  Block& block = at(id);
  Arena& home = arena(block.arena);
  block.since = searches_[home.small ? 0 : 1];
  home.free.insert({block.size, block.address, id});
}

void CachingAllocator::erase_free(Id id) {
  const Block& block = at(id);
  FreeBlocks& free = arena(block.arena).free;
  free.erase(free.lower_bound(block.size, block.address));
}

// Best fit: the smallest free block that holds the size, the lowest address of equal ones.
std::optional<std::size_t> CachingAllocator::find_cached(std::int32_t index, std::int64_t size) {
  Arena& home = arena(index);
  if (settings_.garbage_collection_threshold > 0 && settings_.capacity_bytes) ++searches_[home.small ? 0 : 1];
  const FreeBlocks& free = home.free;
  std::size_t place = free.lower_bound(size);
  if (place == free.size()) return std::nullopt;
  if (settings_.expandable_segments) {
    // A block that can grow counts as large as it can become: others are preferred to it.
    auto can_become = [&](std::size_t at_place) {
      const Block& block = at(free.id_at(at_place));
      return block.size + (block.next >= 0 && !at(block.next).mapped ? at(block.next).size : 0);
    };
    while (place + 1 < free.size() && can_become(place + 1) < can_become(place)) ++place;
  }
  if (settings_.max_split_bytes) {
    const std::int64_t limit = *settings_.max_split_bytes, found = free.size_at(place);
    if (size < limit && found >= limit) return std::nullopt;
    if (size >= limit && found >= size + kOversizeSlack) return std::nullopt;
  }
  return place;
}

bool CachingAllocator::device_gives(std::int64_t bytes) const {
  return !limited_ || stats_.reserved + bytes <= *settings_.capacity_bytes;
}

void CachingAllocator::reserve(std::int64_t bytes) {
  stats_.reserved += bytes;
  stats_.reserved_peak = std::max(stats_.reserved_peak, stats_.reserved);
}

std::optional<CachingAllocator::Id> CachingAllocator::new_segment(std::int32_t index, std::int64_t size) {
  if (settings_.expandable_segments) return expand(index, size);
  const std::int64_t bytes = segment_bytes(size);
  if (!device_gives(bytes)) return std::nullopt;
  const Id id = new_block(index, next_address_, bytes, -1);
  next_address_ += bytes;
  reserve(bytes);
  ++stats_.segments;
  return id;
}

CachingAllocator::Handle CachingAllocator::hand_out(Id id, std::int64_t size, std::optional<std::size_t> cached) {
  const bool was_split = is_split(id);
  const std::int64_t rest = at(id).size - size;
  const bool fine = arena(at(id).arena).small || settings_.expandable_segments;
  const bool split = fine ? rest >= kMinBlock
                          : (!settings_.max_split_bytes || size < *settings_.max_split_bytes) && rest > kSmallRequest;
  const bool counted = at(id).range < 0;
  Id given = id;
  if (split) {
    given = new_block(at(id).arena, at(id).address, size, at(id).range);
    Block& head = at(given);
    Block& tail = at(id);
    head.previous = tail.previous;
    if (head.previous >= 0) at(head.previous).next = given;
    head.next = id;
    tail.previous = given;
    tail.address += size;
    tail.size -= size;
    tail.since = searches_[arena(tail.arena).small ? 0 : 1];
    if (cached)
      arena(tail.arena).free.replace(*cached, {tail.size, tail.address, id});
    else
      arena(tail.arena).free.insert({tail.size, tail.address, id});
    if (counted) stats_.inactive_split += was_split ? -size : rest;
  } else if (was_split && counted) {
    stats_.inactive_split -= at(id).size;
  }
  if (cached && !split) arena(at(id).arena).free.erase(*cached);
  Block& block = at(given);
  block.allocated = true;
  stats_.allocated += block.size;
  stats_.allocated_peak = std::max(stats_.allocated_peak, stats_.allocated);
  stats_.active += block.size;
  stats_.active_peak = std::max(stats_.active_peak, stats_.active);
  return given;
}

// Joins a free neighbour of the same state into a block that is in no set; returns the bytes that were joined.
std::int64_t CachingAllocator::merge(Id into, Id neighbour) {
  if (!idle(neighbour) || at(neighbour).mapped != at(into).mapped) return 0;
  const Block& other = at(neighbour);
  const std::int64_t joined = other.size;
  if (other.mapped)
    erase_free(neighbour);
  else
    arena(other.arena).unmapped.erase({other.address, neighbour});
  join(into, neighbour);
  return joined;
}

// The neighbour, which is in no set any more, becomes a part of the block.
void CachingAllocator::join(Id into, Id neighbour) {
  Block& block = at(into);
  const Block& other = at(neighbour);
  if (block.previous == neighbour) {
    block.address = other.address;
    block.previous = other.previous;
    if (block.previous >= 0) at(block.previous).next = into;
  } else {
    block.next = other.next;
    if (block.next >= 0) at(block.next).previous = into;
  }
  block.size += other.size;
  give_up(neighbour);
}

void CachingAllocator::make_free(Id id) {
  const std::int64_t size = at(id).size;
  // The place of a free neighbour becomes that of all together.
  const auto free_and_mapped = [&](Id other) { return idle(other) && at(other).mapped; };
  const Id previous = at(id).previous, next = at(id).next;
  std::int64_t joined = 0;
  if (free_and_mapped(next) || free_and_mapped(previous)) {
    if (free_and_mapped(next) && free_and_mapped(previous)) joined += merge(id, previous);
    const Id other = free_and_mapped(next) ? next : previous;
    const Block before = at(other);
    joined += before.size;
    join(id, other);
    Block& block = at(id);
    FreeBlocks& free = arena(block.arena).free;
    block.since = searches_[arena(block.arena).small ? 0 : 1];
    free.replace(free.lower_bound(before.size, before.address), {block.size, block.address, id});
  } else {
    insert_free(id);
  }
  if (at(id).range < 0) stats_.inactive_split += (is_split(id) ? at(id).size : 0) - joined;
  stats_.active -= size;
}

std::vector<std::int64_t> CachingAllocator::layout() const {
  std::vector<const Block*> blocks;
  for (const Block& block : blocks_)
    if (block.size > 0) blocks.push_back(&block);
  std::sort(blocks.begin(), blocks.end(), [](const Block* a, const Block* b) { return a->address < b->address; });
  std::vector<std::int64_t> all = {searches_[0], searches_[1], kept_stream_, limited_ ? 1 : 0, stats_.reserved};
  for (const Block* b : blocks) {
    const std::int64_t ends = (b->previous < 0 ? 1 : 0) + (b->next < 0 ? 2 : 0);
    const std::int64_t state = (b->allocated ? 4 : 0) + (b->mapped ? 8 : 0) + 16 * std::int64_t{b->events};
    all.insert(all.end(), {b->address, b->size, b->arena, b->range, b->since, ends + state});
  }
  return all;
}

}  // namespace moeplan::memory
