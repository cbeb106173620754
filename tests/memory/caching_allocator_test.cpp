#include "memory/caching_allocator.h"

#include <doctest/doctest.h>

#include <map>
#include <random>
#include <vector>

#include "memory/slow_allocator.h"

using moeplan::memory::AllocatorSettings;
using moeplan::memory::CachingAllocator;
using moeplan::test::SlowAllocator;

namespace {
constexpr std::int64_t kKib = 1024, kMib = 1024 * kKib;

CachingAllocator::Handle take(CachingAllocator& allocator, std::int64_t bytes, int stream = 0) {
  const auto handle = allocator.allocate(bytes, stream);
  REQUIRE(handle.has_value());
  return *handle;
}
}  // namespace

TEST_CASE("PyTorch's own vectors: three live tensors of a size") {
  // test_cuda.py, graph memory: (size, segments, bytes of each). 512 B: all three in one 2 MiB segment. 1 MiB: two in a
  // segment. 1 MiB + 512: a 20 MiB segment holds all. 10 MiB - 512: two in 20 MiB. 10 MiB + 512: 12 MiB each.
  struct Vector {
    std::int64_t bytes, segments, segment_bytes;
  };
  for (const Vector& v : {Vector{512, 1, 2 * kMib}, Vector{1 * kMib, 2, 2 * kMib}, Vector{1 * kMib + 512, 1, 20 * kMib},
                          Vector{10 * kMib - 512, 2, 20 * kMib}, Vector{10 * kMib + 512, 3, 12 * kMib}}) {
    CAPTURE(v.bytes);
    CachingAllocator allocator({});
    std::vector<CachingAllocator::Handle> handles;
    for (int i = 0; i < 3; ++i) handles.push_back(take(allocator, v.bytes));
    CHECK(allocator.stats().segments == v.segments);
    CHECK(allocator.stats().reserved == v.segments * v.segment_bytes);
    for (auto handle : handles) allocator.release(handle);
    CHECK(allocator.stats().allocated == 0);
    CHECK(allocator.stats().inactive_split == 0);
    allocator.empty_cache();
    CHECK(allocator.stats().reserved == 0);
    CHECK(allocator.stats().segments == 0);
  }
}

TEST_CASE("sizes are rounded to 512 B, nothing takes nothing, and the borders of pools and segments") {
  CachingAllocator allocator({});
  CHECK(allocator.rounded(1) == 512);
  CHECK(allocator.rounded(512) == 512);
  CHECK(allocator.rounded(513) == 1024);
  CHECK(take(allocator, 0) == CachingAllocator::kNothing);
  allocator.release(CachingAllocator::kNothing);
  CHECK(allocator.stats().reserved == 0);
  CHECK(CachingAllocator::segment_bytes(1 * kMib) == 2 * kMib);
  CHECK(CachingAllocator::segment_bytes(1 * kMib + 512) == 20 * kMib);
  CHECK(CachingAllocator::segment_bytes(10 * kMib - 512) == 20 * kMib);
  CHECK(CachingAllocator::segment_bytes(10 * kMib) == 10 * kMib);  // a multiple of 2 MiB already
  CHECK(CachingAllocator::segment_bytes(10 * kMib + 512) == 12 * kMib);
}

TEST_CASE("roundup_power2_divisions: 4 steps between powers of two") {
  // Between 4 and 8 MiB the steps are 1 MiB; 512 * 4 bytes and less are rounded as without it.
  AllocatorSettings settings;
  settings.roundup_power2_divisions = 4;
  CachingAllocator allocator(settings);
  CHECK(allocator.rounded(4 * kMib) == 4 * kMib);
  CHECK(allocator.rounded(4 * kMib + 1) == 5 * kMib);
  CHECK(allocator.rounded(5 * kMib) == 5 * kMib);
  CHECK(allocator.rounded(7 * kMib + 1) == 8 * kMib);
  CHECK(allocator.rounded(2048) == 2048);
  CHECK(allocator.rounded(1025) == 1536);
  CHECK(allocator.rounded(2049) == 2560);
}

TEST_CASE("a remainder of 512 B is split off in the small pool: in the large pool only one above 1 MiB") {
  SUBCASE("small: a 2 MiB segment of two blocks of 1 MiB - 512 leaves 1024 B, which two more use") {
    CachingAllocator allocator({});
    for (int i = 0; i < 2; ++i) take(allocator, kMib - 512);
    CHECK(allocator.stats().inactive_split == 1024);
    take(allocator, 512);
    CHECK(allocator.stats().inactive_split == 512);
    take(allocator, 512);
    CHECK(allocator.stats().inactive_split == 0);
    CHECK(allocator.stats().segments == 1);
  }
  SUBCASE("large: 20 MiB - 9 - 10 MiB + 512 leaves 1 MiB - 512, which stays with the block") {
    CachingAllocator allocator({});
    take(allocator, 9 * kMib);
    take(allocator, 10 * kMib - 512);  // the rest is 11 MiB: 1 MiB + 512 remain, above 1 MiB, split
    CHECK(allocator.stats().inactive_split == kMib + 512);
    CHECK(allocator.stats().allocated == 19 * kMib - 512);
    CachingAllocator other({});
    take(other, 9 * kMib + 512);
    take(other, 10 * kMib - 512);  // 1 MiB remains: not above it, so it is handed out with the block
    CHECK(other.stats().inactive_split == 0);
    CHECK(other.stats().allocated == 20 * kMib);
  }
}

TEST_CASE("best fit: the smallest free block that holds the size: freed neighbours join") {
  CachingAllocator allocator({});
  const auto a = take(allocator, 40 * kMib);
  const auto b = take(allocator, 30 * kMib);
  allocator.release(a);
  allocator.release(b);
  const auto c = take(allocator, 24 * kMib);  // of the 30 MiB: 6 MiB stay free
  CHECK(allocator.stats().inactive_split == 6 * kMib);
  const auto d = take(allocator, 38 * kMib);  // of the 40 MiB
  CHECK(allocator.stats().inactive_split == 6 * kMib + 2 * kMib);
  CHECK(allocator.stats().reserved == 70 * kMib);
  allocator.release(c);
  CHECK(allocator.stats().inactive_split == 2 * kMib);
  const auto e = take(allocator, 30 * kMib);
  CHECK(allocator.stats().reserved == 70 * kMib);
  allocator.release(d);
  allocator.release(e);
  CHECK(allocator.stats().inactive_split == 0);
  CHECK(allocator.stats().active == 0);
}

TEST_CASE("a block serves its own stream and pool alone, and record_stream holds it until its event") {
  CachingAllocator allocator({});
  const auto a = take(allocator, 16 * kMib, 0);
  allocator.release(a);
  const auto b = take(allocator, 16 * kMib, 1);
  CHECK(allocator.stats().reserved == 32 * kMib);
  const auto c = take(allocator, 16 * kMib, 0);
  CHECK(allocator.stats().reserved == 32 * kMib);
  allocator.release_after(c, 7);
  CHECK(allocator.stats().allocated == 16 * kMib);
  CHECK(allocator.stats().active == 32 * kMib);
  take(allocator, 16 * kMib, 0);  // the held block cannot serve it
  CHECK(allocator.stats().reserved == 48 * kMib);
  allocator.complete(7);
  CHECK(allocator.stats().active == 32 * kMib);
  take(allocator, 16 * kMib, 0);
  CHECK(allocator.stats().reserved == 48 * kMib);
  allocator.release(b);
}

TEST_CASE("capacity: exactly enough serves, one byte less retries by freeing cached segments, then fails") {
  // 12 + 30 MiB cached, 14 MiB wanted beside a live 20 MiB: freeing both leaves room for 62 - 20 = 42 MiB.
  auto run = [](std::int64_t capacity, std::int64_t wanted) {
    AllocatorSettings settings;
    settings.capacity_bytes = capacity;
    CachingAllocator allocator(settings);
    const auto live = allocator.allocate(20 * kMib);
    const auto a = allocator.allocate(12 * kMib);
    const auto b = allocator.allocate(30 * kMib);
    allocator.release(*a);
    allocator.release(*b);
    CHECK(live.has_value());
    const bool served = allocator.allocate(wanted).has_value();
    return std::pair{served, allocator.stats()};
  };
  auto [served, stats] = run(62 * kMib + 40 * kMib, 40 * kMib);  // beside what is cached
  CHECK(served);
  CHECK(stats.retries == 0);
  CHECK(stats.reserved == 102 * kMib);
  std::tie(served, stats) = run(62 * kMib + 40 * kMib - 1, 40 * kMib);
  CHECK(served);
  CHECK(stats.retries == 1);
  CHECK(stats.reserved == 60 * kMib);
  std::tie(served, stats) = run(62 * kMib, 42 * kMib);
  CHECK(served);
  CHECK(stats.retries == 1);
  std::tie(served, stats) = run(62 * kMib, 42 * kMib + 1);  // 44 MiB segment
  CHECK_FALSE(served);
  CHECK(stats.retries == 1);
  CHECK(stats.reserved == 20 * kMib);  // what is cached was given back all the same
}

TEST_CASE("what is split cannot be given back: a retry frees nothing and the request fails") {
  AllocatorSettings settings;
  settings.capacity_bytes = 62 * kMib;
  CachingAllocator allocator(settings);
  const auto a = take(allocator, 40 * kMib);
  allocator.release(a);
  take(allocator, 10 * kMib);  // of the 40 MiB: 30 stay free, stranded
  CHECK_FALSE(allocator.allocate(31 * kMib).has_value());
  CHECK(allocator.stats().reserved == 40 * kMib);
  CHECK(allocator.stats().inactive_split == 30 * kMib);
}

TEST_CASE("a retry waits for events and frees what they held") {
  AllocatorSettings settings;
  settings.capacity_bytes = 30 * kMib;
  CachingAllocator allocator(settings);
  allocator.release_after(take(allocator, 20 * kMib), 1);
  take(allocator, 30 * kMib);
  CHECK(allocator.stats().retries == 1);
  CHECK(allocator.stats().active == 30 * kMib);
  CHECK(allocator.stats().reserved == 30 * kMib);
}

TEST_CASE("max_split_size: blocks from it on are not split, serve only near sizes, and are freed first") {
  AllocatorSettings settings;
  settings.max_split_bytes = 64 * kMib;
  settings.capacity_bytes = 209 * kMib;
  CachingAllocator allocator(settings);
  const auto big = take(allocator, 100 * kMib);
  allocator.release(big);
  const auto small = take(allocator, 30 * kMib);  // below the limit: does not take the oversize block
  CHECK(allocator.stats().reserved == 130 * kMib);
  const auto near = take(allocator, 80 * kMib + 512);  // exceeds by 20 MiB - 512: less than 20 MiB, taken whole
  CHECK(allocator.stats().reserved == 130 * kMib);
  CHECK(allocator.stats().allocated == 130 * kMib);
  allocator.release(near);
  // By 20 MiB exactly: not taken. 130 + 80 MiB do not fit 209, so the idle oversize block goes, without a retry.
  take(allocator, 80 * kMib);
  CHECK(allocator.stats().reserved == 110 * kMib);
  CHECK(allocator.stats().retries == 0);
  allocator.release(small);
}

TEST_CASE("garbage collection frees the segments that stayed idle longest once reserved is above the threshold") {
  AllocatorSettings settings;
  settings.garbage_collection_threshold = 0.5;
  settings.capacity_bytes = 200 * kMib;
  CachingAllocator allocator(settings);
  const auto a = take(allocator, 60 * kMib);  // search 1
  allocator.release(a);
  const auto b = take(allocator, 70 * kMib);  // search 2: none fits
  allocator.release(b);
  // Search 3: reserved 130 is above 100. Ages 3 - 1 = 2 and 3 - 2 = 1, mean 1.5: the first goes, 70 + 80 stay.
  take(allocator, 80 * kMib);
  CHECK(allocator.stats().collected == 60 * kMib);
  CHECK(allocator.stats().reserved == 150 * kMib);
  settings.garbage_collection_threshold = 0.65;  // 130 MiB: not above it, nothing goes
  CachingAllocator other(settings);
  other.release(take(other, 60 * kMib));
  other.release(take(other, 70 * kMib));
  take(other, 70 * kMib);
  take(other, 61 * kMib);
  CHECK(other.stats().collected == 0);
}

TEST_CASE(
    "expandable segments: granules of 20 MiB and 2 MiB, no stranded sizes, 512 B remainders in the large pool too") {
  AllocatorSettings settings;
  settings.expandable_segments = true;
  CachingAllocator allocator(settings);
  const auto a = take(allocator, 30 * kMib);
  CHECK(allocator.stats().reserved == 40 * kMib);
  const auto b = take(allocator, 10 * kMib - 512);
  CHECK(allocator.stats().allocated == 40 * kMib - 512);  // the remainder of 512 B is split off
  CHECK(allocator.stats().reserved == 40 * kMib);
  take(allocator, 512);  // the small pool's own range
  CHECK(allocator.stats().reserved == 42 * kMib);
  allocator.release(a);
  allocator.release(b);
  take(allocator, 55 * kMib);  // grows the free 40 MiB to 60
  CHECK(allocator.stats().reserved == 62 * kMib);
}

TEST_CASE("expandable segments: growing sizes reuse one range where segments of their own strand") {
  auto reserved = [](bool expandable) {
    AllocatorSettings settings;
    settings.expandable_segments = expandable;
    CachingAllocator allocator(settings);
    for (int i = 0; i < 10; ++i) allocator.release(*allocator.allocate((100 + 4 * i) * kMib));
    return allocator.stats().reserved;
  };
  CHECK(reserved(true) == 140 * kMib);        // 136 MiB in granules of 20
  CHECK(reserved(false) == 10 * 118 * kMib);  // 100, 104 ... 136: mean 118
}

TEST_CASE("expandable segments: a retry unmaps whole granules inside free blocks, and holes are filled again") {
  AllocatorSettings settings;
  settings.expandable_segments = true;
  settings.capacity_bytes = 100 * kMib;
  CachingAllocator allocator(settings);
  const auto a = take(allocator, 50 * kMib);
  const auto b = take(allocator, 30 * kMib);
  allocator.release(a);
  // 80 MiB are mapped, 60 MiB more do not fit; granules 0 and 20 MiB lie inside the free 50 MiB and go: 40 are mapped.
  const auto c = take(allocator, 60 * kMib);
  CHECK(allocator.stats().retries == 1);
  CHECK(allocator.stats().reserved == 100 * kMib);
  allocator.release(b);
  allocator.release(c);
  allocator.empty_cache();
  CHECK(allocator.stats().reserved == 0);
}

TEST_CASE("after lift_capacity the device is never full") {
  AllocatorSettings settings;
  settings.capacity_bytes = 20 * kMib;
  CachingAllocator allocator(settings);
  CHECK_FALSE(allocator.allocate_without_freeing(30 * kMib).has_value());
  CHECK(allocator.stats().retries == 0);
  allocator.lift_capacity();
  take(allocator, 30 * kMib);
  CHECK(allocator.stats().retries == 0);
  CHECK(allocator.stats().reserved == 30 * kMib);
}

TEST_CASE("random programs: the allocator and the slow reference agree on every figure after every call") {
  // Sizes on both sides of every border, several streams, events, and devices that run full.
  std::int64_t failures = 0, retries = 0;
  for (unsigned seed = 0; seed < 48; ++seed) {
    std::mt19937 random(seed);
    auto draw = [&](std::int64_t below) {
      return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(below));
    };
    AllocatorSettings settings;
    settings.expandable_segments = seed % 2 == 1;
    if (seed % 3 != 0) settings.capacity_bytes = (400 + 40 * draw(10)) * kMib + draw(3);
    if (seed % 5 == 2) settings.max_split_bytes = (20 + 20 * draw(4)) * kMib + 1;
    if (seed % 4 == 2) settings.garbage_collection_threshold = 0.6;
    if (seed % 7 == 3) settings.roundup_power2_divisions = 8;
    CAPTURE(seed);
    CachingAllocator fast(settings);
    SlowAllocator slow(settings);
    std::map<std::int64_t, CachingAllocator::Handle> live;
    std::int64_t name = 0, event = 0, completed = 0;
    for (int step = 0; step < 600; ++step) {
      const std::int64_t action = draw(20);
      if (action < 11 || live.empty()) {
        const std::int64_t kinds[] = {1 + draw(2048),
                                      draw(2 * kMib) + 1,
                                      kMib - 512 * draw(3) + 512 * draw(3),
                                      10 * kMib - 512 * draw(3) + 512 * draw(3),
                                      1 + draw(12 * kMib),
                                      1 + draw(60 * kMib),
                                      16 * kMib,
                                      2 * kMib};
        const std::int64_t bytes = kinds[draw(8)];
        const int stream = static_cast<int>(draw(8) == 0 ? 1 + draw(2) : 0);
        const auto handle = fast.allocate(bytes, stream);
        CHECK(slow.allocate(bytes, stream, name) == handle.has_value());
        if (handle)
          live[name] = *handle;
        else
          ++failures;
        ++name;
      } else if (action < 18) {
        auto it = live.begin();
        std::advance(it, draw(static_cast<std::int64_t>(live.size())));
        if (action == 17) {
          fast.release_after(it->second, event);
          slow.release_after(it->first, event);
          ++event;
        } else {
          fast.release(it->second);
          slow.release(it->first);
        }
        live.erase(it);
      } else if (completed < event) {
        fast.complete(completed);
        slow.complete(completed);
        ++completed;
      } else if (draw(10) == 0) {
        fast.empty_cache();
        slow.empty_cache();
        completed = event;
      }
      const auto& stats = fast.stats();
      REQUIRE(stats.allocated == slow.allocated());
      REQUIRE(stats.active == slow.active());
      REQUIRE(stats.reserved == slow.reserved());
      REQUIRE(stats.inactive_split == slow.inactive_split());
      REQUIRE(stats.segments == slow.segment_count());
      REQUIRE(stats.retries == slow.retries);
    }
    retries += fast.stats().retries;
  }
  CHECK(failures > 0);
  CHECK(retries > failures);  // some retries help
}

TEST_CASE("layouts are equal where the same blocks are held, whatever came between, and tell what differs") {
  CachingAllocator allocator({});
  const auto first = take(allocator, 4 * kMib);
  const auto empty = allocator.layout();
  // Two blocks behind it in the 20 MiB segment, released in another order: the rest is one free block again.
  const auto a = take(allocator, 3 * kMib), b = take(allocator, 5 * kMib);
  CHECK(allocator.layout() != empty);
  allocator.release(b);
  allocator.release(a);
  CHECK(allocator.layout() == empty);
  // A segment that stays cached makes a difference, though as much is held as before.
  allocator.release(take(allocator, 30 * kMib));
  CHECK(allocator.layout() != empty);
  allocator.empty_cache();
  CHECK(allocator.layout() == empty);
  allocator.keep_segments_of(3);
  CHECK(allocator.layout() != empty);
  allocator.release(first);
}

TEST_CASE("hundreds of free blocks, of equal and of different sizes, are found smallest first and lowest first") {
  // 300 blocks of 2 to 4 MiB, every second one released: none has a free neighbour to join. Each request is then served
  // by the smallest that holds it; of equal sizes by the lowest address.
  CachingAllocator allocator({});
  std::vector<CachingAllocator::Handle> all;
  for (std::int64_t i = 0; i < 300; ++i) all.push_back(take(allocator, (2 + i % 3) * kMib));
  std::map<std::pair<std::int64_t, std::int64_t>, int> free;  // (size, address)
  for (std::size_t i = 1; i < all.size(); i += 2) {
    const bool last = i + 1 == all.size();
    if (last) continue;
    free[{allocator.size_of(all[i]), allocator.address_of(all[i])}] = 1;
    allocator.release(all[i]);
  }
  const auto reserved = allocator.stats().reserved;
  int served = 0;
  for (const std::int64_t mib : {3, 2, 4, 3, 2, 3, 4, 2}) {
    // Rests of segments are free too: only requests that some released block fits exactly are compared.
    const auto handle = take(allocator, mib * kMib);
    const auto expected = free.lower_bound({mib * kMib, -1});
    if (expected == free.end() || allocator.size_of(handle) != mib * kMib) continue;
    if (expected->first.first != mib * kMib) continue;
    CHECK(allocator.address_of(handle) == expected->first.second);
    free.erase(expected);
    ++served;
  }
  CHECK(served == 8);
  CHECK(allocator.stats().reserved == reserved);
}
