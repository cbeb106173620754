#pragma once
#include "kernels/bf16.h"
#include "kernels/pass.h"

// The products of the experts by tiles of 16 x 16, sums in fp32: what libraries are compared with, not a fast kernel.
// Weights are [experts, n, k]; rows of an expert lie together, from offsets[e] to offsets[e + 1].
namespace moeplan::kernels {

MOEPLAN_HD inline void store(Bf16& place, float value) { place = to_bf16(value); }
MOEPLAN_HD inline void store(float& place, float value) { place += value; }

template <Pass kPass, class Out>
struct GroupedGemm {
  static constexpr int kTile = 16, kThreads = kTile * kTile;
  struct Shared {
    float a[kTile][kTile + 1], b[kTile][kTile + 1];
  };
  const Bf16* left;   // rows (forward) or gradients
  const Bf16* right;  // weights, or rows (wgrad)
  Out* out;
  const std::int64_t* offsets;  // [experts + 1]
  std::int64_t n, k;
  std::int64_t most_rows;  // of one expert: sets the grid
  int experts;

  MOEPLAN_HD std::int64_t columns() const { return kPass == Pass::forward ? n : k; }
  MOEPLAN_HD Grid grid() const {
    const std::int64_t height = kPass == Pass::wgrad ? (most_rows > 0 ? n : 0) : most_rows;
    return {blocks_for(height, kTile) * blocks_for(columns(), kTile), experts};
  }

  MOEPLAN_HD void operator()(const Block& block, Shared& shared) const {
    const std::int64_t first = offsets[block.by], rows = offsets[block.by + 1] - first;
    const std::int64_t across = blocks_for(columns(), kTile);
    const std::int64_t row0 = block.bx / across * kTile, column0 = block.bx % across * kTile;
    const std::int64_t height = kPass == Pass::wgrad ? n : rows;
    const std::int64_t depth = kPass == Pass::wgrad ? rows : (kPass == Pass::forward ? k : n);
    if (row0 >= height || depth == 0) return;  // of all threads alike
    PerThread<float, kThreads> sums;
    block.each([&](int t) { sums[t] = 0; });
    for (std::int64_t at = 0; at < depth; at += kTile) {
      block.each([&](int t) {
        const int i = t / kTile, j = t % kTile;
        shared.a[i][j] = row0 + i < height && at + j < depth ? left_at(first, row0 + i, at + j) : 0.0F;
        shared.b[i][j] =
            at + i < depth && column0 + j < columns() ? right_at(block.by, first, at + i, column0 + j) : 0.0F;
      });
      block.sync();
      block.each([&](int t) {
        for (int l = 0; l < kTile; ++l) sums[t] += shared.a[t / kTile][l] * shared.b[l][t % kTile];
      });
      block.sync();
    }
    block.each([&](int t) {
      const std::int64_t row = row0 + t / kTile, column = column0 + t % kTile;
      if (row >= height || column >= columns()) return;
      const std::int64_t base = kPass == Pass::wgrad ? block.by * n * k : first * columns();
      store(out[base + row * columns() + column], sums[t]);
    });
  }

 private:
  MOEPLAN_HD float left_at(std::int64_t first, std::int64_t i, std::int64_t l) const {
    if (kPass == Pass::wgrad) return to_float(left[(first + l) * n + i]);
    return to_float(left[(first + i) * (kPass == Pass::forward ? k : n) + l]);
  }
  MOEPLAN_HD float right_at(std::int64_t expert, std::int64_t first, std::int64_t l, std::int64_t j) const {
    if (kPass == Pass::wgrad) return to_float(right[(first + l) * k + j]);
    return to_float(right[expert * n * k + (kPass == Pass::forward ? j * k + l : l * k + j)]);
  }
};

}  // namespace moeplan::kernels
