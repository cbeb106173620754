#pragma once
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

// Random contents of device memory: constant data draws less power and times too fast.
namespace moeplan::device {

enum class Element { bf16, fp8_e4m3, fp32, fp32_positive, bytes };

// `count` elements at `data`: bf16, fp8 and fp32 normal-like (a sum of uniform numbers) with standard deviation
// `scale`; fp32_positive the sizes of such numbers; bytes uniform. Each element depends on (seed, its place) alone.
// Throws DeviceError.
void fill_random(void* data, std::size_t count, Element element, float scale, std::uint64_t seed, cudaStream_t stream);

std::size_t element_bytes(Element element);

}  // namespace moeplan::device
