#pragma once
#include "kernels/bf16.h"

// Rows that LRMoE keeps: gathered from the tokens, sent as records of input and gradient, and compacted by expert.
namespace moeplan::kernels {

// The retained row of each pair, or -1; and the weight of each retained row.
struct MapRetained {
  static constexpr int kThreads = 256;
  using Shared = NoShared;
  const std::int64_t* row_of_pair;  // [pairs]: all rows
  const std::int64_t* new_row;      // [rows]: of SelectRows
  const float* weights;             // [pairs]
  std::int32_t* retained_of_pair;   // [pairs]
  float* row_weights;               // [retained rows]
  std::int64_t pairs;

  MOEPLAN_HD Grid grid() const { return {blocks_for(pairs, kThreads), 1}; }

  MOEPLAN_HD void operator()(const Block& block, Shared&) const {
    block.each([&](int t) {
      const std::int64_t pair = block.bx * kThreads + t;
      if (pair >= pairs) return;
      const std::int64_t row = row_of_pair[pair] < 0 ? -1 : new_row[row_of_pair[pair]];
      retained_of_pair[pair] = static_cast<std::int32_t>(row);
      if (row >= 0) row_weights[row] = weights[pair];
    });
  }
};

// Input and output gradient of each token to the record of each retained pair: 2 hidden values a row.
struct GatherRetained {
  static constexpr int kThreads = 256;
  using Shared = NoShared;
  const Pack* inputs;                    // [tokens, hidden]
  const Pack* gradients;                 // [tokens, hidden]
  const std::int32_t* retained_of_pair;  // [tokens, top_k]
  Pack* records;                         // [retained rows, 2 hidden]
  std::int64_t* slots;                   // [retained rows]: where a record goes among the rows of the experts
  std::int64_t tokens, hidden;
  int top_k;

  MOEPLAN_HD Grid grid() const { return {tokens, 1}; }

  MOEPLAN_HD void operator()(const Block& block, Shared&) const {
    const std::int64_t packs = hidden / Pack::kValues;
    const std::int32_t* rows = retained_of_pair + block.bx * top_k;
    block.each([&](int t) {
      for (std::int64_t p = t; p < packs; p += kThreads) {
        const Pack x = inputs[block.bx * packs + p], dy = gradients[block.bx * packs + p];
        for (int k = 0; k < top_k; ++k) {
          if (rows[k] < 0) continue;
          records[std::int64_t{rows[k]} * 2 * packs + p] = x;
          records[(std::int64_t{rows[k]} * 2 + 1) * packs + p] = dy;
        }
      }
      for (int k = t; k < top_k; k += kThreads)
        if (rows[k] >= 0) slots[rows[k]] = rows[k];
    });
  }
};

// Records to the rows of the experts, input and gradient apart. One record a block.
struct Compact {
  static constexpr int kThreads = 256;
  using Shared = NoShared;
  const Pack* records;        // [rows, 2 hidden]
  const std::int64_t* slots;  // [rows], all different
  Pack* inputs;               // [rows, hidden]
  Pack* gradients;            // [rows, hidden]
  std::int64_t rows, hidden;

  MOEPLAN_HD Grid grid() const { return {rows, 1}; }

  MOEPLAN_HD void operator()(const Block& block, Shared&) const {
    const std::int64_t packs = hidden / Pack::kValues;
    const std::int64_t to = slots[block.bx] * packs, from = block.bx * 2 * packs;
    block.each([&](int t) {
      for (std::int64_t p = t; p < packs; p += kThreads) {
        inputs[to + p] = records[from + p];
        gradients[to + p] = records[from + packs + p];
      }
    });
  }
};

}  // namespace moeplan::kernels
