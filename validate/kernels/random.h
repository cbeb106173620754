#pragma once
#include "kernels/portable.h"

// Numbers that follow from a seed and a place alone (splitmix64: Steele, Lea, Flood 2014), equal on host and device.
namespace moeplan::kernels {

inline constexpr std::uint64_t kGoldenStep = 0x9E3779B97F4A7C15ULL;

MOEPLAN_HD inline std::uint64_t mixed(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9ULL;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBULL;
  return x ^ (x >> 31);
}

// The number at `place` of the sequence of `seed`.
MOEPLAN_HD inline std::uint64_t random_bits(std::uint64_t seed, std::uint64_t place) {
  return mixed(seed + (place + 1) * kGoldenStep);
}

// The sum of four uniform numbers of 16 bits, with mean 0 and standard deviation 1 (variance 4 / 12), within 3.47.
MOEPLAN_HD inline float normal_like(std::uint64_t bits) {
  const float sum =
      static_cast<float>((bits & 0xFFFF) + ((bits >> 16) & 0xFFFF) + ((bits >> 32) & 0xFFFF) + (bits >> 48));
  return (sum / 65535.0F - 2.0F) * 1.7320508F;
}

}  // namespace moeplan::kernels
