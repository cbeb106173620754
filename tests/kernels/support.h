#pragma once
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "kernels/elementwise.h"
#include "kernels/launch.h"

// What the tests of kernel bodies share: data, both orders of threads, and errors against double precision.
namespace moeplan::kernels::testing {

// 16-byte aligned, as device memory is.
template <class T>
struct Aligned {
  using value_type = T;
  Aligned() = default;
  template <class U>
  explicit Aligned(const Aligned<U>&) {}
  T* allocate(std::size_t n) { return static_cast<T*>(::operator new (n * sizeof(T), std::align_val_t{16})); }
  void deallocate(T* p, std::size_t) { ::operator delete (p, std::align_val_t{16}); }
  bool operator==(const Aligned&) const { return true; }
};
template <class T>
using Data = std::vector<T, Aligned<T>>;

inline std::size_t at(std::int64_t i) { return static_cast<std::size_t>(i); }

inline Data<float> floats(std::int64_t count, std::uint64_t seed, float scale = 1) {
  Data<float> data(at(count));
  for (std::int64_t i = 0; i < count; ++i) data[at(i)] = scale * random_value(seed, static_cast<std::uint64_t>(i));
  return data;
}
inline Data<Bf16> bf16s(std::int64_t count, std::uint64_t seed, float scale = 1) {
  Data<Bf16> data(at(count));
  for (std::int64_t i = 0; i < count; ++i)
    data[at(i)] = to_bf16(scale * random_value(seed, static_cast<std::uint64_t>(i)));
  return data;
}
inline Pack* packs(Data<Bf16>& data) { return reinterpret_cast<Pack*>(data.data()); }
inline const Pack* packs(const Data<Bf16>& data) { return reinterpret_cast<const Pack*>(data.data()); }

template <class T>
bool same_bits(const Data<T>& a, const Data<T>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

// What `run(order)` gives, having checked that both orders give the same bits.
template <class Run>
auto in_both_orders(const Run& run) {
  auto forward = run(Order::forward);
  const auto reverse = run(Order::reverse);
  CHECK(same_bits(forward, reverse));
  return forward;
}

// |value - expected| over `scale`, the size of what was summed.
inline double error(float value, double expected, double scale) { return std::abs(value - expected) / scale; }

inline constexpr double kBf16 = 1.0 / 256;         // half a unit in the last of 8 bits
inline constexpr double kFloat = 1.0 / (1 << 20);  // sums of up to some thousand products in fp32

}  // namespace moeplan::kernels::testing
