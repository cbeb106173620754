#include <algorithm>

#include "base/check.h"
#include "base/checked.h"
#include "memory/caching_allocator.h"

// Expandable segments: one range of addresses a stream and pool, whose granules are backed by memory as they are
// needed. A block of a range is in use, free (backed) or unmapped.
namespace moeplan::memory {

namespace {
// Address space of a range where the device is not limited; PyTorch takes 9/8 of the device, so that pages may move.
constexpr std::int64_t kUnlimitedRange = std::int64_t{1} << 50;
}  // namespace

std::int64_t CachingAllocator::granule(std::int32_t index) const {
  return arenas_[static_cast<std::size_t>(index)].small ? kSmallSegment : kLargeSegment;
}

// The lowest place of a range with room for the size, over free and unmapped blocks; a new range where there is none.
CachingAllocator::Id CachingAllocator::expandable_candidate(std::int32_t index, std::int64_t size) {
  Arena& home = arena(index);
  for (const auto& [address, id] : home.unmapped) {
    const Id first = idle(at(id).previous) ? at(id).previous : id;
    std::int64_t room = 0;
    for (Id block = first; room < size && idle(block); block = at(block).next) room += at(block).size;
    if (room >= size) return first;
  }
  const std::int64_t space =
      settings_.capacity_bytes ? *settings_.capacity_bytes + *settings_.capacity_bytes / 8 : kUnlimitedRange;
  next_address_ = base::round_up(next_address_, kLargeSegment);
  const Id id = new_block(index, next_address_, base::round_up(std::max(space, size), granule(index)), ranges_++);
  at(id).mapped = false;
  next_address_ += at(id).size;
  home.unmapped.insert({at(id).address, id});
  return id;
}

// Backs the front of an unmapped block by whole granules; false when the device has not that many.
bool CachingAllocator::map(Id id, std::int64_t size) {
  const std::int64_t bytes = base::round_up(size, granule(at(id).arena));
  MOEPLAN_CHECK(!at(id).mapped && bytes <= at(id).size, "an expandable range maps beyond its block");
  if (!device_gives(bytes)) return false;
  Arena& home = arena(at(id).arena);
  home.unmapped.erase({at(id).address, id});
  if (bytes < at(id).size) {
    const Id rest = new_block(at(id).arena, at(id).address + bytes, at(id).size - bytes, at(id).range);
    at(rest).mapped = false;
    at(rest).previous = id;
    at(rest).next = at(id).next;
    if (at(rest).next >= 0) at(at(rest).next).previous = rest;
    at(id).next = rest;
    at(id).size = bytes;
    home.unmapped.insert({at(rest).address, rest});
  }
  at(id).mapped = true;
  merge(id, at(id).previous);
  merge(id, at(id).next);
  insert_free(id);
  reserve(bytes);
  return true;
}

std::optional<CachingAllocator::Id> CachingAllocator::expand(std::int32_t index, std::int64_t size) {
  Id candidate = expandable_candidate(index, size);
  if (!at(candidate).mapped && !map(candidate, std::min(at(candidate).size, size))) return std::nullopt;
  while (at(candidate).size < size) {
    // Free, then unmapped: what is mapped joins the free block before it.
    const Id next = at(candidate).next;
    if (!map(next, std::min(size - at(candidate).size, at(next).size))) return std::nullopt;
    candidate = next;
  }
  erase_free(candidate);
  return candidate;
}

// Gives back the whole granules inside a free block.
void CachingAllocator::unmap(Id id) {
  const std::int64_t step = granule(at(id).arena);
  const std::int64_t begin = base::round_up(at(id).address, step);
  const std::int64_t end = (at(id).address + at(id).size) / step * step;
  if (begin >= end) return;
  erase_free(id);
  const std::int64_t before = begin - at(id).address, after = at(id).address + at(id).size - end;
  if (before > 0) {
    const Id head = new_block(at(id).arena, at(id).address, before, at(id).range);
    at(head).previous = at(id).previous;
    at(head).next = id;
    if (at(head).previous >= 0) at(at(head).previous).next = head;
    at(id).previous = head;
    insert_free(head);
  }
  if (after > 0) {
    const Id tail = new_block(at(id).arena, end, after, at(id).range);
    at(tail).next = at(id).next;
    at(tail).previous = id;
    if (at(tail).next >= 0) at(at(tail).next).previous = tail;
    at(id).next = tail;
    insert_free(tail);
  }
  at(id).address = begin;
  at(id).size = end - begin;
  at(id).mapped = false;
  merge(id, at(id).previous);
  merge(id, at(id).next);
  stats_.reserved -= end - begin;
  if (!is_split(id)) {  // nothing of the range is backed: it is given up
    give_up(id);
    return;
  }
  arena(at(id).arena).unmapped.insert({at(id).address, id});
}

}  // namespace moeplan::memory
