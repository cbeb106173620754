#pragma once
#include <cmath>

#include "kernels/bf16.h"

// LRMoE: the score of each pair, and per expert the pairs of the highest scores.
namespace moeplan::kernels {

// score = weight * |gradient| * |input|: a bound of the pair's share of the expert's update. One token a block; scores
// go to the rows of the pairs, which lie by expert.
struct ScorePairs {
  static constexpr int kThreads = 256;
  struct Shared {
    float inputs[kThreads], gradients[kThreads];
  };
  const Pack* inputs;               // [tokens, hidden]
  const Pack* gradients;            // [tokens, hidden]
  const float* weights;             // [tokens, top_k], >= 0
  const std::int64_t* row_of_pair;  // [tokens, top_k]
  float* scores;                    // [rows]
  std::int64_t tokens, hidden;
  int top_k;

  MOEPLAN_HD Grid grid() const { return {tokens, 1}; }

  MOEPLAN_HD void operator()(const Block& block, Shared& shared) const {
    const std::int64_t packs = hidden / Pack::kValues;
    block.each([&](int t) {
      float input = 0, gradient = 0;
      for (std::int64_t p = t; p < packs; p += kThreads) {
        const Pack x = inputs[block.bx * packs + p], dy = gradients[block.bx * packs + p];
        for (int i = 0; i < Pack::kValues; ++i) {
          input += x.get(i) * x.get(i);
          gradient += dy.get(i) * dy.get(i);
        }
      }
      shared.inputs[t] = input;
      shared.gradients[t] = gradient;
    });
    block.sync();
    const auto add = [](float a, float b) { return a + b; };
    reduce<kThreads>(block, shared.inputs, add);
    reduce<kThreads>(block, shared.gradients, add);
    block.each([&](int t) {
      for (int k = t; k < top_k; k += kThreads) {
        const std::int64_t pair = block.bx * top_k + k;
        if (row_of_pair[pair] >= 0)
          scores[row_of_pair[pair]] = weights[pair] * (sqrtf(shared.inputs[0]) * sqrtf(shared.gradients[0]));
      }
    });
  }
};

// One expert a block: its rows of the highest scores, as many as its quota, numbered in their order; all others -1.
// Of equal scores the first rows win. Scores are >= 0, so their bits sort as they do: four rounds, one byte each, find
// the score of the last row that is kept.
struct SelectRows {
  static constexpr int kThreads = 256;
  struct Shared {
    std::uint32_t counts[kThreads], other[kThreads], kept[kThreads];
    std::uint32_t prefix, wanted;
  };
  const float* scores;           // [rows]
  const std::int64_t* offsets;   // [experts + 1]: rows of each expert
  const std::int64_t* retained;  // [experts + 1]: the same of what is kept; no quota exceeds the rows
  std::int64_t* new_row;         // [rows]
  int experts;

  MOEPLAN_HD Grid grid() const { return {experts, 1}; }

  MOEPLAN_HD void operator()(const Block& block, Shared& shared) const {
    const std::int64_t first = offsets[block.bx], rows = offsets[block.bx + 1] - first;
    block.each([&](int t) {
      if (t > 0) return;
      shared.prefix = 0;
      shared.wanted = static_cast<std::uint32_t>(retained[block.bx + 1] - retained[block.bx]);
    });
    block.sync();
    for (int shift = 24; shift >= 0; shift -= 8) find_byte(block, shared, first, rows, shift);
    number(block, shared, first, rows);
  }

 private:
  MOEPLAN_HD std::uint32_t key(std::int64_t row) const { return bits_of(scores[row]); }

  // Among the rows that share the bytes found so far: the next byte of the last row that is kept.
  MOEPLAN_HD void find_byte(const Block& block, Shared& shared, std::int64_t first, std::int64_t rows,
                            int shift) const {
    block.each([&](int t) { shared.counts[255 - t] = 0; });
    block.sync();
    block.each([&](int t) {
      for (std::int64_t r = t; r < rows; r += kThreads) {
        const std::uint32_t bits = key(first + r);
        const bool shares = shift == 24 || (bits >> (shift + 8)) == (shared.prefix >> (shift + 8));
        if (shares) count_one(shared.counts[255 - ((bits >> shift) & 255U)]);  // from the highest byte on
      }
    });
    block.sync();
    inclusive_sums<kThreads>(block, shared.counts, shared.other);
    PerThread<bool, kThreads> here;
    block.each([&](int t) {
      const std::uint32_t before = t > 0 ? shared.counts[t - 1] : 0;
      here[t] = before < shared.wanted && shared.wanted <= shared.counts[t];
    });
    block.sync();
    block.each([&](int t) {
      if (!here[t]) return;  // one thread, or none where nothing is wanted
      shared.prefix |= static_cast<std::uint32_t>(255 - t) << shift;
      shared.wanted -= t > 0 ? shared.counts[t - 1] : 0;
    });
    block.sync();
  }

  // shared.prefix is now the last score that is kept, shared.wanted how many rows of just that score are.
  MOEPLAN_HD void number(const Block& block, Shared& shared, std::int64_t first, std::int64_t rows) const {
    const bool none = retained[block.bx + 1] == retained[block.bx];
    PerThread<std::uint32_t, kThreads> ties, kept, mine;
    block.each([&](int t) { ties[t] = kept[t] = 0; });
    for (std::int64_t at = 0; at < rows; at += kThreads) {
      block.each([&](int t) {
        mine[t] = at + t < rows ? key(first + at + t) : 0;
        shared.counts[t] = at + t < rows && mine[t] == shared.prefix ? 1 : 0;
      });
      block.sync();
      inclusive_sums<kThreads>(block, shared.counts, shared.other);
      block.each([&](int t) {
        const bool there = at + t < rows && !none;
        const bool tie = there && mine[t] == shared.prefix && ties[t] + shared.counts[t] <= shared.wanted;
        shared.kept[t] = tie || (there && mine[t] > shared.prefix) ? 1 : 0;
        mine[t] = shared.kept[t];
        ties[t] += shared.counts[kThreads - 1];
      });
      block.sync();
      inclusive_sums<kThreads>(block, shared.kept, shared.other);
      block.each([&](int t) {
        if (at + t < rows)
          new_row[first + at + t] = mine[t] == 1 ? retained[block.bx] + kept[t] + shared.kept[t] - 1 : -1;
        kept[t] += shared.kept[kThreads - 1];
      });
      block.sync();
    }
  }
};

}  // namespace moeplan::kernels
