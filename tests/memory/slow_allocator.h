#pragma once
#include <algorithm>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "memory/caching_allocator.h"

// The obvious allocator: segments as lists of cells, every search a scan over all of them, neighbours found by
// position, totals counted anew. What CachingAllocator must agree with.
namespace moeplan::test {

class SlowAllocator {
 public:
  using Settings = memory::AllocatorSettings;
  explicit SlowAllocator(const Settings& settings) : settings_(settings) {}

  // False: out of memory. `name` is the caller's and unique.
  bool allocate(std::int64_t bytes, int stream, std::int64_t name) {
    const std::int64_t size = rounded(bytes);
    const bool small = size <= 1 << 20;
    if (take_cached(size, stream, small, name)) return true;
    collect_garbage();
    if (take_new(size, stream, small, name)) return true;
    if (free_oversize(size, stream, small) && take_new(size, stream, small, name)) return true;
    free_whole();
    ++retries;
    return take_new(size, stream, small, name);
  }
  void release(std::int64_t name) {
    each_of(name, [](Cell& cell) { cell.name = kFree; });
  }
  void release_after(std::int64_t name, std::int64_t event) {
    each_of(name, [&](Cell& cell) {
      cell.name = kFree;
      cell.events.push_back(event);
    });
  }
  void complete(std::int64_t event) {
    for (Segment& segment : segments)
      for (Cell& cell : segment.cells)
        if (std::erase(cell.events, event) > 0 && cell.events.empty()) cell.since = searches(segment.small);
    tidy();
  }
  void empty_cache() { free_whole(); }

  std::int64_t allocated() const {
    return sum([](const Segment&, const Cell& cell) { return cell.name >= 0; });
  }
  std::int64_t active() const {
    return sum([](const Segment&, const Cell& cell) { return cell.name >= 0 || !cell.events.empty(); });
  }
  std::int64_t reserved() const {
    return sum([](const Segment&, const Cell& cell) { return cell.name != kUnmapped; });
  }
  std::int64_t inactive_split() const {
    return sum([](const Segment& segment, const Cell& cell) {
      return !segment.expandable && segment.cells.size() > 1 && cell.free();
    });
  }
  std::int64_t segment_count() const {
    std::int64_t count = 0;
    for (const Segment& segment : segments) count += segment.expandable ? 0 : 1;
    return count;
  }
  std::int64_t retries = 0;

 private:
  static constexpr std::int64_t kFree = -1, kUnmapped = -2;
  struct Cell {
    std::int64_t size = 0, name = kFree;
    std::vector<std::int64_t> events;
    std::int64_t since = 0;
    bool free() const { return name == kFree && events.empty(); }
  };
  struct Segment {
    int stream = 0;
    bool small = false, expandable = false;
    std::vector<Cell> cells;
  };

  std::int64_t rounded(std::int64_t bytes) const {
    if (bytes < 512) return 512;
    if (const std::int64_t n = settings_.roundup_power2_divisions; n > 1 && bytes > 512 * n) {
      std::int64_t power = 1;
      while (power * 2 <= bytes) power *= 2;
      std::int64_t size = power;
      while (size < bytes) size += power / n;
      return size;
    }
    return (bytes + 511) / 512 * 512;
  }
  static std::int64_t new_bytes(std::int64_t size) {
    if (size <= 1 << 20) return 2 << 20;
    if (size < 10 << 20) return 20 << 20;
    return (size + (2 << 20) - 1) / (2 << 20) * (2 << 20);
  }
  std::int64_t& searches(bool small) { return small ? small_searches_ : large_searches_; }
  bool has_room(std::int64_t bytes) const {
    return !settings_.capacity_bytes || reserved() + bytes <= *settings_.capacity_bytes;
  }
  template <class Which>
  std::int64_t sum(const Which& which) const {
    std::int64_t bytes = 0;
    for (const Segment& segment : segments)
      for (const Cell& cell : segment.cells)
        if (which(segment, cell)) bytes += cell.size;
    return bytes;
  }
  template <class Change>
  void each_of(std::int64_t name, const Change& change) {
    for (Segment& segment : segments)
      for (Cell& cell : segment.cells)
        if (cell.name == name) {
          change(cell);
          cell.since = searches(segment.small);
        }
    tidy();
  }
  // Joins neighbours that are free, or unmapped.
  void tidy() {
    for (Segment& segment : segments)
      for (std::size_t i = 0; i + 1 < segment.cells.size();) {
        Cell &a = segment.cells[i], &b = segment.cells[i + 1];
        const bool same = (a.free() && b.free()) || (a.name == kUnmapped && b.name == kUnmapped);
        if (!same) {
          ++i;
          continue;
        }
        a.size += b.size;
        a.since = std::max(a.since, b.since);  // a block that was joined counts from now
        segment.cells.erase(segment.cells.begin() + static_cast<std::ptrdiff_t>(i) + 1);
      }
  }
  void cut(Segment& segment, std::size_t i, std::int64_t size, std::int64_t name) {
    Cell& cell = segment.cells[i];
    const std::int64_t rest = cell.size - size;
    const bool fine = segment.small || settings_.expandable_segments;
    const bool split =
        fine ? rest >= 512 : (!settings_.max_split_bytes || size < *settings_.max_split_bytes) && rest > 1 << 20;
    cell.name = name;
    if (!split) return;
    cell.size = size;
    Cell tail;
    tail.size = rest;
    tail.since = searches(segment.small);
    segment.cells.insert(segment.cells.begin() + static_cast<std::ptrdiff_t>(i) + 1, tail);
  }
  bool take_cached(std::int64_t size, int stream, bool small, std::int64_t name) {
    ++searches(small);
    struct Found {
      std::int64_t size, grown;
      std::size_t segment, cell;
    };
    std::vector<Found> list;  // in order of size, then of place
    for (std::size_t s = 0; s < segments.size(); ++s)
      for (std::size_t c = 0; c < segments[s].cells.size(); ++c) {
        const Segment& segment = segments[s];
        const Cell& cell = segment.cells[c];
        if (segment.stream != stream || segment.small != small || !cell.free() || cell.size < size) continue;
        const bool grows = c + 1 < segment.cells.size() && segment.cells[c + 1].name == kUnmapped;
        Found found{cell.size, cell.size + (grows ? segment.cells[c + 1].size : 0), s, c};
        std::size_t at = 0;
        while (at < list.size() && list[at].size <= found.size) ++at;
        list.insert(list.begin() + static_cast<std::ptrdiff_t>(at), found);
      }
    if (list.empty()) return false;
    std::size_t best = 0;
    if (settings_.expandable_segments)
      while (best + 1 < list.size() && list[best + 1].grown < list[best].grown) ++best;
    if (const auto limit = settings_.max_split_bytes) {
      if (size < *limit && list[best].size >= *limit) return false;
      if (size >= *limit && list[best].size >= size + (20 << 20)) return false;
    }
    cut(segments[list[best].segment], list[best].cell, size, name);
    return true;
  }
  bool take_new(std::int64_t size, int stream, bool small, std::int64_t name) {
    if (settings_.expandable_segments) return take_expanded(size, stream, small, name);
    const std::int64_t bytes = new_bytes(size);
    if (!has_room(bytes)) return false;
    Cell cell;
    cell.size = bytes;
    segments.push_back(Segment{stream, small, false, {cell}});
    cut(segments.back(), 0, size, name);
    return true;
  }
  bool take_expanded(std::int64_t size, int stream, bool small, std::int64_t name) {
    const std::int64_t step = small ? 2 << 20 : 20 << 20;
    for (;;) {
      for (Segment& segment : segments) {
        if (segment.stream != stream || segment.small != small) continue;
        for (std::size_t c = 0; c < segment.cells.size(); ++c) {
          if (segment.cells[c].name != kUnmapped) continue;
          const std::size_t first = c > 0 && segment.cells[c - 1].free() ? c - 1 : c;
          std::int64_t room = 0;
          for (std::size_t i = first; i < segment.cells.size(); ++i) {
            if (!segment.cells[i].free() && segment.cells[i].name != kUnmapped) break;
            room += segment.cells[i].size;
          }
          if (room < size) continue;
          // Back unmapped cells in turn until the first free cell is large enough.
          for (;;) {
            Cell& head = segment.cells[first];
            std::size_t open = first;
            std::int64_t wanted = size;
            if (head.name != kUnmapped) {
              if (head.size >= size) break;
              open = first + 1;
              wanted = size - head.size;
            }
            Cell& cell = segment.cells[open];
            const std::int64_t bytes = (std::min(wanted, cell.size) + step - 1) / step * step;
            if (!has_room(bytes)) return false;
            Cell rest;
            rest.size = cell.size - bytes;
            rest.name = kUnmapped;
            cell.size = bytes;
            cell.name = kFree;
            if (rest.size > 0)
              segment.cells.insert(segment.cells.begin() + static_cast<std::ptrdiff_t>(open) + 1, rest);
            tidy();
          }
          cut(segment, first, size, name);
          return true;
        }
      }
      Cell cell;
      const std::int64_t space = settings_.capacity_bytes ? *settings_.capacity_bytes / 8 * 9 : std::int64_t{1} << 50;
      cell.size = (std::max(space, size) + step - 1) / step * step;
      cell.name = kUnmapped;
      segments.push_back(Segment{stream, small, true, {cell}});
    }
  }
  bool free_oversize(std::int64_t size, int stream, bool small) {
    if (!settings_.max_split_bytes) return false;
    const std::int64_t limit = *settings_.max_split_bytes, wanted = std::max(size, limit);
    auto smallest_from = [&](std::int64_t from) {
      std::ptrdiff_t best = -1;
      for (std::size_t s = 0; s < segments.size(); ++s) {
        const Segment& segment = segments[s];
        if (segment.stream != stream || segment.small != small || segment.expandable) continue;
        if (segment.cells.size() != 1 || !segment.cells[0].free() || segment.cells[0].size < from) continue;
        if (best < 0 || segment.cells[0].size < segments[static_cast<std::size_t>(best)].cells[0].size)
          best = static_cast<std::ptrdiff_t>(s);
      }
      return best;
    };
    if (const std::ptrdiff_t one = smallest_from(wanted); one >= 0) {
      segments.erase(segments.begin() + one);
      return true;
    }
    std::int64_t released = 0;
    while (released < wanted) {
      std::ptrdiff_t largest = -1;
      for (std::int64_t from = limit; smallest_from(from) >= 0;) {
        largest = smallest_from(from);
        from = segments[static_cast<std::size_t>(largest)].cells[0].size + 1;
      }
      if (largest < 0) return false;
      released += segments[static_cast<std::size_t>(largest)].cells[0].size;
      segments.erase(segments.begin() + largest);
    }
    return true;
  }
  void free_whole() {
    for (Segment& segment : segments)
      for (Cell& cell : segment.cells) cell.events.clear();
    tidy();
    for (std::size_t s = 0; s < segments.size();) {
      Segment& segment = segments[s];
      if (!segment.expandable) {
        if (segment.cells.size() == 1 && segment.cells[0].free())
          segments.erase(segments.begin() + static_cast<std::ptrdiff_t>(s));
        else
          ++s;
        continue;
      }
      const std::int64_t step = segment.small ? 2 << 20 : 20 << 20;
      std::vector<Cell> cells;
      std::int64_t place = 0;
      for (const Cell& cell : segment.cells) {
        const std::int64_t begin = (place + step - 1) / step * step, end = (place + cell.size) / step * step;
        auto push = [&](std::int64_t size, std::int64_t name) {
          Cell part;
          part.size = size;
          part.name = name;
          if (size > 0) cells.push_back(part);
        };
        if (cell.free() && begin < end) {
          push(begin - place, kFree);
          push(end - begin, kUnmapped);
          push(place + cell.size - end, kFree);
        } else {
          cells.push_back(cell);
        }
        place += cell.size;
      }
      segment.cells = cells;
      tidy();
      if (segment.cells.size() == 1 && segment.cells[0].name == kUnmapped)
        segments.erase(segments.begin() + static_cast<std::ptrdiff_t>(s));
      else
        ++s;
    }
  }
  void collect_garbage() {
    if (settings_.garbage_collection_threshold <= 0 || !settings_.capacity_bytes) return;
    const auto threshold = static_cast<std::int64_t>(settings_.garbage_collection_threshold *
                                                     static_cast<double>(*settings_.capacity_bytes));
    if (reserved() <= threshold) return;
    const std::int64_t target = reserved() - threshold;
    std::int64_t reclaimed = 0;
    for (bool freed = true; reclaimed < target && freed;) {
      double ages = 0, count = 0;
      auto idle = [](const Segment& segment) {
        return !segment.small && !segment.expandable && segment.cells.size() == 1 && segment.cells[0].free();
      };
      for (const Segment& segment : segments)
        if (idle(segment)) {
          ages += static_cast<double>(large_searches_ - segment.cells[0].since);
          ++count;
        }
      freed = false;
      for (std::size_t s = 0; s < segments.size();) {
        if (idle(segments[s]) &&
            static_cast<double>(large_searches_ - segments[s].cells[0].since) >= ages / std::max(count, 1.0)) {
          freed = true;
          reclaimed += segments[s].cells[0].size;
          segments.erase(segments.begin() + static_cast<std::ptrdiff_t>(s));
        } else {
          ++s;
        }
      }
    }
  }

  std::vector<Segment> segments;
  Settings settings_;
  std::int64_t small_searches_ = 0, large_searches_ = 0;
};

}  // namespace moeplan::test
