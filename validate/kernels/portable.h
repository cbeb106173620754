#pragma once
#include <cstddef>
#include <cstdint>

// Bodies of kernels that run on a device and, from the same source, on the host, where tests can reach them. A body is
// a struct of pointers and sizes with `Shared` (its shared memory), `kThreads`, `grid()`, and operator()(Block,
// Shared&) written in phases: what every thread of a block does, then a barrier. C++17, no header of CUDA.
#if defined(__CUDACC__)
#define MOEPLAN_HD __host__ __device__
#else
#define MOEPLAN_HD
#endif

namespace moeplan::kernels {

struct Grid {
  std::int64_t x = 1, y = 1;  // blocks; none where either is 0
};

// One block of threads. On the host the threads of a phase run one after the other, forward or in reverse: results that
// differ by a bit between the two orders show a barrier that is missing.
struct Block {
  std::int64_t bx = 0, by = 0;
  int threads = 1;
  bool reversed = false;

  template <class Phase>
  MOEPLAN_HD void each(const Phase& phase) const {
#if defined(__CUDA_ARCH__)
    phase(static_cast<int>(threadIdx.x));
#else
    for (int i = 0; i < threads; ++i) phase(reversed ? threads - 1 - i : i);
#endif
  }
  MOEPLAN_HD void sync() const {
#if defined(__CUDA_ARCH__)
    __syncthreads();
#endif
  }
};

// A value of each thread that lives across barriers: a register on the device, N values on the host. Never a member of
// a body or of its shared memory, as its layout differs between the two.
template <class T, int N>
class PerThread {
 public:
#if defined(__CUDA_ARCH__)
  MOEPLAN_HD T& operator[](int) { return value_; }

 private:
  T value_;
#else
  T& operator[](int thread) { return values_[thread]; }

 private:
  T values_[N];
#endif
};

// Adds to a counter that other threads of the block count on, too. Whole numbers: the sum does not depend on the order.
MOEPLAN_HD inline void count_one(std::uint32_t& counter) {
#if defined(__CUDA_ARCH__)
  atomicAdd(&counter, 1U);
#else
  ++counter;
#endif
}

MOEPLAN_HD inline std::int64_t blocks_for(std::int64_t items, std::int64_t per_block) {
  return (items + per_block - 1) / per_block;
}

// values[0] becomes the combination of all N values (N a power of two), in an order that depends on N alone.
template <int N, class T, class Combine>
MOEPLAN_HD void reduce(const Block& block, T* values, const Combine& combine) {
  for (int half = N / 2; half > 0; half /= 2) {
    block.each([&](int t) {
      if (t < half) values[t] = combine(values[t], values[t + half]);
    });
    block.sync();
  }
}

// values[t] becomes the sum of values[0..t]. `other` holds as many; both are shared memory.
template <int N, class T>
MOEPLAN_HD void inclusive_sums(const Block& block, T* values, T* other) {
  for (int distance = 1; distance < N; distance *= 2) {
    block.each([&](int t) { other[t] = t >= distance ? values[t] + values[t - distance] : values[t]; });
    block.sync();
    block.each([&](int t) { values[t] = other[t]; });
    block.sync();
  }
}

struct NoShared {};

}  // namespace moeplan::kernels
