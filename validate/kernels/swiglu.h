#pragma once
#include <cmath>

#include "kernels/bf16.h"

// The gated activation of an expert, with the router's weight of the row: weight * silu(gate) * up. `ffn` is a multiple
// of 8; a row of the first product holds gate, then up.
namespace moeplan::kernels {

MOEPLAN_HD inline float sigmoid(float x) { return 1.0F / (1.0F + expf(-x)); }

struct SwiGlu {
  static constexpr int kThreads = 128;
  using Shared = NoShared;
  const Pack* gate_up;   // [rows, 2 ffn]
  const float* weights;  // [rows]
  Pack* activation;      // [rows, ffn]
  std::int64_t rows, ffn;

  MOEPLAN_HD Grid grid() const { return {rows, 1}; }

  MOEPLAN_HD void operator()(const Block& block, Shared&) const {
    const std::int64_t packs = ffn / Pack::kValues;
    const Pack* gates = gate_up + block.bx * 2 * packs;
    block.each([&](int t) {
      for (std::int64_t p = t; p < packs; p += kThreads) {
        const Pack gate = gates[p], up = gates[packs + p];
        float values[Pack::kValues];
        for (int i = 0; i < Pack::kValues; ++i) {
          const float g = gate.get(i);
          values[i] = weights[block.bx] * (g * sigmoid(g)) * up.get(i);
        }
        activation[block.bx * packs + p] = pack_of(values);
      }
    });
  }
};

// With s = sigmoid(gate): d gate = d w up s (1 + gate (1 - s)), d up = d w gate s, and the weight's own gradient, the
// sum of d gate s up over the row.
struct SwiGluBackward {
  static constexpr int kThreads = 128;
  struct Shared {
    float sums[kThreads];
  };
  const Pack* gate_up;              // [rows, 2 ffn]
  const float* weights;             // [rows]
  const Pack* activation_gradient;  // [rows, ffn]
  Pack* gate_up_gradient;           // [rows, 2 ffn]
  float* weight_gradient;           // [rows]
  std::int64_t rows, ffn;

  MOEPLAN_HD Grid grid() const { return {rows, 1}; }

  MOEPLAN_HD void operator()(const Block& block, Shared& shared) const {
    const std::int64_t packs = ffn / Pack::kValues;
    const std::int64_t first = block.bx * 2 * packs;
    block.each([&](int t) {
      float sum = 0;
      for (std::int64_t p = t; p < packs; p += kThreads) {
        const Pack gate = gate_up[first + p], up = gate_up[first + packs + p];
        const Pack gradient = activation_gradient[block.bx * packs + p];
        float gates[Pack::kValues], ups[Pack::kValues];
        for (int i = 0; i < Pack::kValues; ++i) {
          const float g = gate.get(i), u = up.get(i), d = gradient.get(i);
          const float s = sigmoid(g);
          const float weighted = d * weights[block.bx];
          gates[i] = weighted * u * s * (1.0F + g * (1.0F - s));
          ups[i] = weighted * (g * s);
          sum += d * (g * s) * u;
        }
        gate_up_gradient[first + p] = pack_of(gates);
        gate_up_gradient[first + packs + p] = pack_of(ups);
      }
      shared.sums[t] = sum;
    });
    block.sync();
    reduce<kThreads>(block, shared.sums, [](float a, float b) { return a + b; });
    block.each([&](int t) {
      if (t == 0) weight_gradient[block.bx] = shared.sums[0];
    });
  }
};

}  // namespace moeplan::kernels
