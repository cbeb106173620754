#pragma once
#include <cstring>
#include <type_traits>

#include "kernels/portable.h"

// Runs a body on all blocks of its grid: on the host, or, where the compiler is nvcc, on a device.
namespace moeplan::kernels {

enum class Order { forward, reverse };

// Blocks and threads one after the other in the order given. Shared memory starts as the device's does, with whatever
// was there: a different pattern in each order, so that what is read before it is written shows.
template <class Body>
void run_on_host(const Body& body, Order order = Order::forward) {
  static_assert(std::is_trivially_copyable_v<Body> && std::is_trivially_copyable_v<typename Body::Shared>);
  const Grid grid = body.grid();
  const bool reversed = order == Order::reverse;
  for (std::int64_t y = 0; y < grid.y; ++y)
    for (std::int64_t x = 0; x < grid.x; ++x) {
      typename Body::Shared shared;
      std::memset(static_cast<void*>(&shared), reversed ? 0x5A : 0xA5, sizeof shared);
      body(Block{reversed ? grid.x - 1 - x : x, reversed ? grid.y - 1 - y : y, Body::kThreads, reversed}, shared);
    }
}

#if defined(__CUDACC__)
template <class Body>
__global__ void __launch_bounds__(Body::kThreads) run_body(Body body) {
  __shared__ typename Body::Shared shared;
  body(Block{blockIdx.x, blockIdx.y, Body::kThreads, false}, shared);
}

// Returns what the launch returned; an empty grid launches nothing. y is at most 65535 on every device.
template <class Body>
cudaError_t launch(const Body& body, cudaStream_t stream) {
  const Grid grid = body.grid();
  if (grid.x == 0 || grid.y == 0) return cudaSuccess;
  run_body<<<dim3(static_cast<unsigned>(grid.x), static_cast<unsigned>(grid.y)), Body::kThreads, 0, stream>>>(body);
  return cudaGetLastError();
}
#endif

}  // namespace moeplan::kernels
