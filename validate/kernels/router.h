#pragma once
#include <cmath>

#include "kernels/bf16.h"

// The router behind its product: softmax over experts, the top-k of each token, and the gradient of both.
namespace moeplan::kernels {

// One token a block. Equal probabilities: the expert of the lower number first. Probabilities are of all experts; the
// weight of a chosen one is its probability.
struct RouterTopK {
  static constexpr int kThreads = 32;
  struct Shared {
    float values[kThreads];
    int experts[kThreads];
  };
  const float* logits;   // [tokens, experts]
  float* probabilities;  // [tokens, experts]
  std::uint8_t* map;     // [tokens, experts]: 1 where chosen
  std::int32_t* chosen;  // [tokens, top_k], in descending order of probability
  float* weights;        // [tokens, top_k]
  std::int64_t tokens;
  int experts, top_k;  // top_k <= experts

  MOEPLAN_HD Grid grid() const { return {tokens, 1}; }

  MOEPLAN_HD void operator()(const Block& block, Shared& shared) const {
    const float* in = logits + block.bx * experts;
    float* out = probabilities + block.bx * experts;
    std::uint8_t* mine = map + block.bx * experts;
    // The largest logit is taken from all, so that no exponential overflows.
    block.each([&](int t) {
      float largest = -INFINITY;
      for (int e = t; e < experts; e += kThreads) largest = in[e] > largest ? in[e] : largest;
      shared.values[t] = largest;
    });
    block.sync();
    reduce<kThreads>(block, shared.values, [](float a, float b) { return a > b ? a : b; });
    PerThread<float, kThreads> largest;
    block.each([&](int t) { largest[t] = shared.values[0]; });
    block.sync();
    block.each([&](int t) {
      float sum = 0;
      for (int e = t; e < experts; e += kThreads) {
        out[e] = expf(in[e] - largest[t]);
        mine[e] = 0;
        sum += out[e];
      }
      shared.values[t] = sum;
    });
    block.sync();
    reduce<kThreads>(block, shared.values, [](float a, float b) { return a + b; });
    block.each([&](int t) {
      for (int e = t; e < experts; e += kThreads) out[e] /= shared.values[0];
    });
    block.sync();
    for (int k = 0; k < top_k; ++k) choose(block, shared, out, mine, block.bx * top_k + k);
  }

  // The best of those that are not chosen yet. Each thread looks at its own experts, whose order rises.
  MOEPLAN_HD void choose(const Block& block, Shared& shared, const float* out, std::uint8_t* mine,
                         std::int64_t place) const {
    block.each([&](int t) {
      int best = experts;
      for (int e = t; e < experts; e += kThreads)
        if (mine[e] == 0 && (best == experts || out[e] > out[best])) best = e;
      shared.experts[t] = best;
    });
    block.sync();
    reduce<kThreads>(block, shared.experts, [&](int a, int b) {
      if (a == experts || b == experts) return a < b ? a : b;
      if (out[a] == out[b]) return a < b ? a : b;
      return out[a] > out[b] ? a : b;
    });
    block.each([&](int t) {
      if (t > 0) return;
      chosen[place] = shared.experts[0];
      weights[place] = out[shared.experts[0]];
      mine[shared.experts[0]] = 1;
    });
    block.sync();
  }
};

// Gradient of the logits from that of the chosen weights: p_e (g_e - sum_j g_j p_j), g_e 0 where e is not chosen.
struct RouterBackward {
  static constexpr int kThreads = 32;
  struct Shared {
    float sums[kThreads];
  };
  const float* probabilities;    // [tokens, experts]
  const std::int32_t* chosen;    // [tokens, top_k]
  const float* weight_gradient;  // [tokens, top_k]
  Bf16* logit_gradient;          // [tokens, experts]: an operand of the products behind it
  std::int64_t tokens;
  int experts, top_k;

  MOEPLAN_HD Grid grid() const { return {tokens, 1}; }

  MOEPLAN_HD void operator()(const Block& block, Shared& shared) const {
    const float* p = probabilities + block.bx * experts;
    const std::int32_t* mine = chosen + block.bx * top_k;
    const float* g = weight_gradient + block.bx * top_k;
    block.each([&](int t) {
      float sum = 0;
      for (int k = t; k < top_k; k += kThreads) sum += g[k] * p[mine[k]];
      shared.sums[t] = sum;
    });
    block.sync();
    reduce<kThreads>(block, shared.sums, [](float a, float b) { return a + b; });
    block.each([&](int t) {
      for (int e = t; e < experts; e += kThreads) {
        float gradient = 0;
        for (int k = 0; k < top_k; ++k) gradient = mine[k] == e ? g[k] : gradient;
        logit_gradient[block.bx * experts + e] = to_bf16(p[e] * (gradient - shared.sums[0]));
      }
    });
  }
};

}  // namespace moeplan::kernels
