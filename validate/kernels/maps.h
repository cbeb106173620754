#pragma once
#include "kernels/portable.h"

// Where the row of each (token, expert) pair goes: rows are sorted by expert, and by pair within an expert. Four bodies
// run one after the other: pairs are counted by tile and expert; tiles are summed up; experts are summed up; every pair
// gets its row. No atomic operation decides an order.
namespace moeplan::kernels {

inline constexpr int kPairTile = 1024;  // pairs that a block counts

// A pair whose expert is negative has no row.
struct CountPairs {
  static constexpr int kThreads = 256;
  struct Shared {
    std::int32_t experts[kPairTile];
  };
  const std::int32_t* chosen;  // [pairs]
  std::int32_t* counts;        // [tiles, experts]
  std::int64_t pairs;
  int experts;

  MOEPLAN_HD Grid grid() const { return {blocks_for(pairs, kPairTile), 1}; }

  MOEPLAN_HD void operator()(const Block& block, Shared& shared) const {
    const std::int64_t first = block.bx * kPairTile;
    block.each([&](int t) {
      for (int i = t; i < kPairTile; i += kThreads) shared.experts[i] = first + i < pairs ? chosen[first + i] : -1;
    });
    block.sync();
    block.each([&](int t) {
      for (int e = t; e < experts; e += kThreads) {
        std::int32_t count = 0;
        for (int i = 0; i < kPairTile; ++i) count += shared.experts[i] == e ? 1 : 0;
        counts[block.bx * experts + e] = count;
      }
    });
  }
};

// One expert a block: its counts become the number of its pairs in the tiles before, and their sum its rows.
struct SumTiles {
  static constexpr int kThreads = 256;
  struct Shared {
    std::int64_t sums[kThreads], other[kThreads];
  };
  std::int32_t* counts;  // [tiles, experts]
  std::int64_t* rows;    // [experts]
  std::int64_t tiles;
  int experts;

  MOEPLAN_HD Grid grid() const { return {experts, 1}; }

  MOEPLAN_HD void operator()(const Block& block, Shared& shared) const {
    const std::int64_t share = blocks_for(tiles, kThreads);
    block.each([&](int t) {
      std::int64_t sum = 0;
      for (std::int64_t i = t * share; i < (t + 1) * share && i < tiles; ++i) sum += counts[i * experts + block.bx];
      shared.sums[t] = sum;
    });
    block.sync();
    inclusive_sums<kThreads>(block, shared.sums, shared.other);
    block.each([&](int t) {
      std::int64_t before = t > 0 ? shared.sums[t - 1] : 0;
      for (std::int64_t i = t * share; i < (t + 1) * share && i < tiles; ++i) {
        const std::int32_t count = counts[i * experts + block.bx];
        counts[i * experts + block.bx] = static_cast<std::int32_t>(before);
        before += count;
      }
      if (t == kThreads - 1) rows[block.bx] = shared.sums[t];
    });
  }
};

// offsets[e]: rows of the experts before e; the last one is the sum of all.
struct SumExperts {
  static constexpr int kThreads = 256;
  struct Shared {
    std::int64_t sums[kThreads], other[kThreads];
  };
  const std::int64_t* rows;  // [experts]
  std::int64_t* offsets;     // [experts + 1]
  int experts;

  MOEPLAN_HD Grid grid() const { return {1, 1}; }

  MOEPLAN_HD void operator()(const Block& block, Shared& shared) const {
    const int share = static_cast<int>(blocks_for(experts, kThreads));
    block.each([&](int t) {
      std::int64_t sum = 0;
      for (int e = t * share; e < (t + 1) * share && e < experts; ++e) sum += rows[e];
      shared.sums[t] = sum;
    });
    block.sync();
    inclusive_sums<kThreads>(block, shared.sums, shared.other);
    block.each([&](int t) {
      std::int64_t before = t > 0 ? shared.sums[t - 1] : 0;
      for (int e = t * share; e < (t + 1) * share && e < experts; ++e) {
        offsets[e] = before;
        before += rows[e];
      }
      if (t == kThreads - 1) offsets[experts] = shared.sums[t];
    });
  }
};

// A thread counts on through a tile for each of its experts.
struct PlacePairs {
  static constexpr int kThreads = 256;
  using Shared = CountPairs::Shared;
  const std::int32_t* chosen;   // [pairs]
  const std::int32_t* before;   // [tiles, experts]: of SumTiles
  const std::int64_t* offsets;  // [experts + 1]
  std::int64_t* row_of_pair;    // [pairs]; -1: no row
  std::int64_t pairs;
  int experts;

  MOEPLAN_HD Grid grid() const { return {blocks_for(pairs, kPairTile), 1}; }

  MOEPLAN_HD void operator()(const Block& block, Shared& shared) const {
    const std::int64_t first = block.bx * kPairTile;
    block.each([&](int t) {
      for (int i = t; i < kPairTile; i += kThreads) {
        const bool there = first + i < pairs;
        shared.experts[i] = there ? chosen[first + i] : -1;
        if (there && shared.experts[i] < 0) row_of_pair[first + i] = -1;
      }
    });
    block.sync();
    block.each([&](int t) {
      for (int e = t; e < experts; e += kThreads) {
        std::int64_t row = offsets[e] + before[block.bx * experts + e];
        for (int i = 0; i < kPairTile; ++i)
          if (shared.experts[i] == e) row_of_pair[first + i] = row++;
      }
    });
  }
};

}  // namespace moeplan::kernels
