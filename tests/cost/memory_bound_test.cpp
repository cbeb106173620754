#include <doctest/doctest.h>

#include "cost/kernels.h"
#include "support.h"

using namespace moeplan;
using cost::memory_bound_time_s;
using cost::MemoryAccess;
using doctest::Approx;

TEST_CASE("memory-bound time is the floor plus bytes over the rate of the access") {
  const auto profile = cost::test::round_profile();  // floor 2 us, 1 TB/s; permute half, loss a quarter of it
  CHECK(memory_bound_time_s(0, MemoryAccess::streaming, profile) == 0);
  CHECK(memory_bound_time_s(1, MemoryAccess::streaming, profile) >= 2e-6);
  CHECK(memory_bound_time_s(10e6, MemoryAccess::streaming, profile) == Approx(12e-6).epsilon(1e-12));
  CHECK(memory_bound_time_s(10e6, MemoryAccess::permute, profile) == Approx(22e-6).epsilon(1e-12));
  CHECK(memory_bound_time_s(10e6, MemoryAccess::loss, profile) == Approx(42e-6).epsilon(1e-12));
}

TEST_CASE("H200: permute kernels of 50 to 100 MB lie between the two libraries measured") {
  // TileOPs PR 603, tokens x 4096, top-2: 50.3 MB in 21.7 (TileOPs) and 28.4 us (vLLM); 100.7 MB in 42.5 and 56.6 us
  const auto profile = cost::test::shipped("h200-sxm");
  const double half = memory_bound_time_s(50331648, MemoryAccess::permute, profile);
  CHECK(half > 21.7e-6);
  CHECK(half < 28.4e-6);
  const double full = memory_bound_time_s(100663296, MemoryAccess::permute, profile);
  CHECK(full > 42.5e-6);
  CHECK(full < 56.6e-6);
}
