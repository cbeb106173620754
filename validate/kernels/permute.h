#pragma once
#include "kernels/bf16.h"

// Between the tokens of a layer and the rows of its experts. `hidden` is a multiple of 8; a token has top_k pairs, each
// with a row or with none (-1).
namespace moeplan::kernels {

// Copies each token to the rows of its pairs, and the pair's weight beside. Reads a token once.
struct Permute {
  static constexpr int kThreads = 256;
  using Shared = NoShared;
  const Pack* tokens_in;            // [tokens, hidden]
  const float* weights;             // [tokens, top_k]; null: rows alone
  const std::int64_t* row_of_pair;  // [tokens, top_k]
  Pack* rows_out;                   // [rows, hidden]
  float* row_weights;               // [rows]
  std::int64_t tokens, hidden;
  int top_k;

  MOEPLAN_HD Grid grid() const { return {tokens, 1}; }

  MOEPLAN_HD void operator()(const Block& block, Shared&) const {
    const std::int64_t packs = hidden / Pack::kValues;
    const std::int64_t* rows = row_of_pair + block.bx * top_k;
    block.each([&](int t) {
      for (std::int64_t p = t; p < packs; p += kThreads) {
        const Pack pack = tokens_in[block.bx * packs + p];
        for (int k = 0; k < top_k; ++k)
          if (rows[k] >= 0) rows_out[rows[k] * packs + p] = pack;
      }
      if (weights == nullptr) return;
      for (int k = t; k < top_k; k += kThreads)
        if (rows[k] >= 0) row_weights[rows[k]] = weights[block.bx * top_k + k];
    });
  }
};

// Sums the rows of each token in fp32, in the order of its pairs, each times its weight.
template <class Index>
struct Unpermute {
  static constexpr int kThreads = 256;
  using Shared = NoShared;
  const Pack* rows_in;       // [rows, hidden]
  const float* weights;      // [tokens, top_k]; null: 1
  const Index* row_of_pair;  // [tokens, top_k]
  Pack* tokens_out;          // [tokens, hidden]
  std::int64_t tokens, hidden;
  int top_k;

  MOEPLAN_HD Grid grid() const { return {tokens, 1}; }

  MOEPLAN_HD void operator()(const Block& block, Shared&) const {
    const std::int64_t packs = hidden / Pack::kValues;
    const Index* rows = row_of_pair + block.bx * top_k;
    block.each([&](int t) {
      for (std::int64_t p = t; p < packs; p += kThreads) {
        float sums[Pack::kValues] = {};
        for (int k = 0; k < top_k; ++k) {
          if (rows[k] < 0) continue;
          const Pack pack = rows_in[std::int64_t{rows[k]} * packs + p];
          const float weight = weights == nullptr ? 1.0F : weights[block.bx * top_k + k];
          for (int i = 0; i < Pack::kValues; ++i) sums[i] += weight * pack.get(i);
        }
        tokens_out[block.bx * packs + p] = pack_of(sums);
      }
    });
  }
};

// One value a row back to its pair (0 for a pair without a row): the gradients of the router's weights.
template <class Index>
struct GatherPairs {
  static constexpr int kThreads = 256;
  using Shared = NoShared;
  const float* row_values;   // [rows]
  const Index* row_of_pair;  // [pairs]
  float* pair_values;        // [pairs]
  std::int64_t pairs;

  MOEPLAN_HD Grid grid() const { return {blocks_for(pairs, kThreads), 1}; }

  MOEPLAN_HD void operator()(const Block& block, Shared&) const {
    block.each([&](int t) {
      const std::int64_t pair = block.bx * kThreads + t;
      if (pair < pairs) pair_values[pair] = row_of_pair[pair] < 0 ? 0.0F : row_values[row_of_pair[pair]];
    });
  }
};

}  // namespace moeplan::kernels
