#include "layer/caching_pool.h"

#include <doctest/doctest.h>

#include <cstdlib>
#include <random>
#include <vector>

#include "memory/caching_allocator.h"

namespace moeplan::layer {
namespace {
constexpr std::int64_t kMiB = 1 << 20;

// Addresses alone, in rising order, of which `limit` bytes exist.
struct Addresses {
  std::int64_t limit = std::int64_t{1} << 50, used = 0;
  std::uintptr_t next = 4096;
  std::map<void*, std::size_t> given;
  void* take(std::size_t bytes) {
    if (used + static_cast<std::int64_t>(bytes) > limit) return nullptr;
    used += static_cast<std::int64_t>(bytes);
    void* address = reinterpret_cast<void*>(next);
    next += bytes;
    given[address] = bytes;
    return address;
  }
  void give(void* address) {
    used -= static_cast<std::int64_t>(given.at(address));
    given.erase(address);
  }
};
}  // namespace

TEST_CASE("three live tensors take the segments of PyTorch's own test") {
  // Of its test of graph memory (the design notes' vectors): size of each, reserved in all.
  for (const auto& [size, reserved] :
       std::vector<std::pair<std::int64_t, std::int64_t>>{{512, 2 * kMiB},
                                                          {kMiB, 4 * kMiB},
                                                          {kMiB + 512, 20 * kMiB},
                                                          {10 * kMiB - 512, 40 * kMiB},
                                                          {10 * kMiB + 512, 36 * kMiB}}) {
    Addresses source;
    CachingPool<Addresses> pool(source);
    for (int i = 0; i < 3; ++i) pool.take(size);
    CHECK(pool.stats().reserved == reserved);
    CHECK(source.used == reserved);
  }
}

TEST_CASE("the pool and the simulator's model of PyTorch's allocator agree on every step of random programs") {
  for (unsigned seed = 1; seed <= 20; ++seed) {
    std::mt19937_64 random(seed);
    Addresses source;
    CachingPool<Addresses> pool(source);
    memory::CachingAllocator model({});
    std::vector<std::pair<void*, memory::CachingAllocator::Handle>> live;
    for (int step = 0; step < 2000; ++step) {
      if (live.empty() || random() % 100 < 55) {
        const std::int64_t largest = random() % 3 == 0 ? 2 * kMiB : 64 * kMiB;
        const auto bytes = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(largest)) + 1;
        live.emplace_back(pool.take(bytes), *model.allocate(bytes));
      } else {
        const std::size_t i = random() % live.size();
        pool.give(live[i].first);
        model.release(live[i].second);
        live[i] = live.back();
        live.pop_back();
      }
      REQUIRE(pool.stats().allocated == model.stats().allocated);
      REQUIRE(pool.stats().reserved == model.stats().reserved);
    }
    CHECK(pool.stats().allocated_peak == model.stats().allocated_peak);
    CHECK(pool.stats().reserved_peak == model.stats().reserved_peak);
    for (const auto& [pointer, handle] : live) pool.give(pointer);
    pool.give_back_idle();
    CHECK(pool.stats().reserved == 0);
    CHECK(source.used == 0);
  }
}

TEST_CASE("idle segments go back before a request fails") {
  Addresses source;
  source.limit = 40 * kMiB;
  CachingPool<Addresses> pool(source);
  void* first = pool.take(20 * kMiB);
  pool.give(first);
  CHECK(pool.take(0) == nullptr);
  void* second = pool.take(32 * kMiB);  // 20 + 32 is more than there is: the idle 20 go
  CHECK(pool.stats().reserved == 32 * kMiB);
  CHECK_THROWS_AS(pool.take(12 * kMiB), std::bad_alloc);
  pool.give(second);
  pool.start_peaks();
  CHECK(pool.stats().allocated_peak == 0);
  CHECK(pool.stats().reserved_peak == 32 * kMiB);
}

TEST_CASE("a pool returns its segments in the end, though tensors are alive") {
  Addresses source;
  {
    CachingPool<Addresses> pool(source);
    pool.take(512);
    pool.take(30 * kMiB);
    CHECK(source.used == 32 * kMiB);
  }
  CHECK(source.used == 0);
}

}  // namespace moeplan::layer
