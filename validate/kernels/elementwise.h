#pragma once
#include <cmath>

#include "kernels/bf16.h"
#include "kernels/random.h"

// Operations on one element, or on eight, at a time. Counts are of elements; a thread takes eight, the last one what is
// left.
namespace moeplan::kernels {

inline constexpr int kElementThreads = 256, kElementsAThread = Pack::kValues;
MOEPLAN_HD inline Grid element_grid(std::int64_t count) {
  return {blocks_for(count, kElementThreads * kElementsAThread), 1};
}
// First element and end of a thread's eight.
template <class Do>
MOEPLAN_HD void for_elements(const Block& block, std::int64_t count, const Do& act) {
  block.each([&](int t) {
    const std::int64_t first = (block.bx * kElementThreads + t) * kElementsAThread;
    const std::int64_t end = first + kElementsAThread < count ? first + kElementsAThread : count;
    if (first < count) act(first, end);
  });
}

// Four fp32 values that move together.
struct alignas(16) Quad {
  float values[4];
};

struct CastToBf16 {
  static constexpr int kThreads = kElementThreads;
  using Shared = NoShared;
  const float* from;  // both at addresses that 16 divides
  Bf16* to;
  std::int64_t count;

  MOEPLAN_HD Grid grid() const { return element_grid(count); }
  MOEPLAN_HD void operator()(const Block& block, Shared&) const {
    for_elements(block, count, [&](std::int64_t first, std::int64_t end) {
      if (end - first == kElementsAThread) {
        const Quad low = reinterpret_cast<const Quad*>(from)[first / 4];
        const Quad high = reinterpret_cast<const Quad*>(from)[first / 4 + 1];
        float values[kElementsAThread];
        for (int i = 0; i < 4; ++i) {
          values[i] = low.values[i];
          values[4 + i] = high.values[i];
        }
        reinterpret_cast<Pack*>(to)[first / kElementsAThread] = pack_of(values);
        return;
      }
      for (std::int64_t i = first; i < end; ++i) to[i] = to_bf16(from[i]);
    });
  }
};

struct CastToFloat {
  static constexpr int kThreads = kElementThreads;
  using Shared = NoShared;
  const Bf16* from;  // both at addresses that 16 divides
  float* to;
  std::int64_t count;

  MOEPLAN_HD Grid grid() const { return element_grid(count); }
  MOEPLAN_HD void operator()(const Block& block, Shared&) const {
    for_elements(block, count, [&](std::int64_t first, std::int64_t end) {
      if (end - first == kElementsAThread) {
        const Pack pack = reinterpret_cast<const Pack*>(from)[first / kElementsAThread];
        for (int half = 0; half < 2; ++half) {
          Quad quad;
          for (int i = 0; i < 4; ++i) quad.values[i] = pack.get(4 * half + i);
          reinterpret_cast<Quad*>(to)[first / 4 + half] = quad;
        }
        return;
      }
      for (std::int64_t i = first; i < end; ++i) to[i] = to_float(from[i]);
    });
  }
};

// Outputs of chunks to their place in the whole. Counts are of packs.
struct Copy {
  static constexpr int kThreads = 256;
  using Shared = NoShared;
  const Pack* from;
  Pack* to;
  std::int64_t packs;

  MOEPLAN_HD Grid grid() const { return {blocks_for(packs, kThreads), 1}; }
  MOEPLAN_HD void operator()(const Block& block, Shared&) const {
    block.each([&](int t) {
      const std::int64_t at = block.bx * kThreads + t;
      if (at < packs) to[at] = from[at];
    });
  }
};

// sum = a + b in fp32, rounded: residual branches, and gradients of an input that two read. `sum` may be either.
struct Add {
  static constexpr int kThreads = 256;
  using Shared = NoShared;
  const Pack* a;
  const Pack* b;
  Pack* sum;
  std::int64_t packs;

  MOEPLAN_HD Grid grid() const { return {blocks_for(packs, kThreads), 1}; }
  MOEPLAN_HD void operator()(const Block& block, Shared&) const {
    block.each([&](int t) {
      const std::int64_t at = block.bx * kThreads + t;
      if (at >= packs) return;
      const Pack left = a[at], right = b[at];
      float values[Pack::kValues];
      for (int i = 0; i < Pack::kValues; ++i) values[i] = left.get(i) + right.get(i);
      sum[at] = pack_of(values);
    });
  }
};

// Adam with decoupled weight decay: fp32 master, moments and gradient; the bf16 parameter is written anew. A thread
// takes four elements, the last one what is left.
struct Adam {
  static constexpr int kThreads = 256, kAThread = 4;
  using Shared = NoShared;
  float* master;  // all at addresses that 16 divides
  float* first_moment;
  float* second_moment;
  const float* gradient;
  Bf16* parameter;
  std::int64_t count;
  float rate, beta1, beta2, epsilon, decay;
  float correction1, correction2;  // 1 - beta^step

  MOEPLAN_HD Grid grid() const { return {blocks_for(count, kThreads * kAThread), 1}; }
  MOEPLAN_HD void operator()(const Block& block, Shared&) const {
    block.each([&](int t) {
      const std::int64_t first = (block.bx * kThreads + t) * kAThread;
      if (first + kAThread <= count) {
        Quad value = at(master, first), m = at(first_moment, first), v = at(second_moment, first);
        const Quad g = reinterpret_cast<const Quad*>(gradient)[first / kAThread];
        for (int i = 0; i < kAThread; ++i) step(value.values[i], m.values[i], v.values[i], g.values[i]);
        at(master, first) = value;
        at(first_moment, first) = m;
        at(second_moment, first) = v;
        for (int i = 0; i < kAThread; ++i) parameter[first + i] = to_bf16(value.values[i]);
        return;
      }
      for (std::int64_t i = first; i < count; ++i) {
        step(master[i], first_moment[i], second_moment[i], gradient[i]);
        parameter[i] = to_bf16(master[i]);
      }
    });
  }

 private:
  MOEPLAN_HD static Quad& at(float* values, std::int64_t first) {
    return reinterpret_cast<Quad*>(values)[first / kAThread];
  }
  MOEPLAN_HD void step(float& value, float& m, float& v, float g) const {
    m = beta1 * m + (1.0F - beta1) * g;
    v = beta2 * v + (1.0F - beta2) * g * g;
    value -= rate * ((m / correction1) / (sqrtf(v / correction2) + epsilon) + decay * value);
  }
};

// Numbers between -scale and scale, from a hash of their position: random data, equal on host and device.
MOEPLAN_HD inline float random_value(std::uint64_t seed, std::uint64_t position) {
  const std::uint64_t bits = random_bits(seed, position);
  return static_cast<float>(static_cast<std::int32_t>(bits >> 40) - (1 << 23)) * (1.0F / (1 << 23));
}

template <class Element>
struct FillRandom {
  static constexpr int kThreads = kElementThreads;
  using Shared = NoShared;
  Element* to;
  std::int64_t count;
  std::uint64_t seed;
  float scale;

  MOEPLAN_HD static void put(Bf16& place, float value) { place = to_bf16(value); }
  MOEPLAN_HD static void put(float& place, float value) { place = value; }
  MOEPLAN_HD Grid grid() const { return element_grid(count); }
  MOEPLAN_HD void operator()(const Block& block, Shared&) const {
    for_elements(block, count, [&](std::int64_t first, std::int64_t end) {
      for (std::int64_t i = first; i < end; ++i) put(to[i], scale * random_value(seed, static_cast<std::uint64_t>(i)));
    });
  }
};

}  // namespace moeplan::kernels
