#pragma once
#include <cuda_runtime.h>

#include <cstddef>

// The smallest kernels that measurements need. All throw DeviceError.
namespace moeplan::device {

void launch_empty(cudaStream_t stream);

// to[0..bytes) = from[0..bytes), 16 bytes a thread at a time; `bytes` a multiple of 16. `blocks`: 0 for as many as fill
// the device; else so many, each of which holds a multiprocessor of its own, as communication kernels do.
void launch_copy(void* to, const void* from, std::size_t bytes, int blocks, cudaStream_t stream);
// to = from * factor + other, fp32: two reads and a write. `count` a multiple of 4.
void launch_triad(float* to, const float* from, const float* other, float factor, std::size_t count,
                  cudaStream_t stream);
// Adds all words up, so that each is read; `sum` is one word a block and only written.
void launch_read(unsigned* sum, const void* from, std::size_t bytes, cudaStream_t stream);
std::size_t read_sum_bytes();

}  // namespace moeplan::device
