#pragma once
#include <cstring>

#include "kernels/portable.h"

// bfloat16 as two bytes with conversions of our own, equal on host and device.
namespace moeplan::kernels {

struct Bf16 {
  std::uint16_t bits;
};

MOEPLAN_HD inline std::uint32_t bits_of(float value) {
  std::uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  return bits;
}
MOEPLAN_HD inline float float_of(std::uint32_t bits) {
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

MOEPLAN_HD inline float to_float(Bf16 value) { return float_of(static_cast<std::uint32_t>(value.bits) << 16); }
MOEPLAN_HD inline float to_float(float value) { return value; }

// To the nearest, to even when halfway; what is no number stays none.
MOEPLAN_HD inline Bf16 to_bf16(float value) {
  const std::uint32_t bits = bits_of(value);
  if ((bits & 0x7FFFFFFFU) > 0x7F800000U) return Bf16{static_cast<std::uint16_t>((bits >> 16) | 0x40U)};
  return Bf16{static_cast<std::uint16_t>((bits + 0x7FFFU + ((bits >> 16) & 1U)) >> 16)};
}

// Eight values that move together: 16 bytes, the widest load of a thread.
struct alignas(16) Pack {
  static constexpr int kValues = 8;
  std::uint32_t words[4];  // the first value of a pair in the low half

  MOEPLAN_HD float get(int i) const {
    const std::uint32_t word = words[i / 2];
    return float_of(i % 2 == 0 ? word << 16 : word & 0xFFFF0000U);
  }
};
MOEPLAN_HD inline Pack pack_of(const float* values) {
  Pack pack;
  for (int i = 0; i < Pack::kValues / 2; ++i)
    pack.words[i] = static_cast<std::uint32_t>(to_bf16(values[2 * i]).bits) |
                    static_cast<std::uint32_t>(to_bf16(values[2 * i + 1]).bits) << 16;
  return pack;
}

}  // namespace moeplan::kernels
