#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/checked.h"
#include "cost/kernels.h"
#include "cost/roofline.h"

// docs/models.md, Grouped GEMM.
namespace moeplan::cost {
namespace {

constexpr std::int64_t kTileColumns = 128;

struct Work {
  double tile_flop = 0;     // summed over tiles, each with its pipeline fill
  double longest_flop = 0;  // of one tile: no call is shorter than its longest tile on one multiprocessor
  double rows = 0;          // without padding
  double groups = 0;        // experts that have rows
};

double as_double(std::int64_t value) { return static_cast<double>(value); }

}  // namespace

double grouped_gemm_time_s(std::span<const std::int64_t> rows, std::int64_t n, std::int64_t k, GemmPass pass,
                           const topology::HardwareProfile& profile, Precision precision) {
  MOEPLAN_CHECK(n >= 0 && k >= 0, "a shape is never negative");
  if (n == 0 || k == 0) return 0;
  const topology::HardwareProfile::Gemm& gemm = profile.gemm;
  const std::int64_t tile_rows = std::llround(profile.grouped_gemm.tile_rows.value);
  const double fill = fill_elements(profile, precision);

  // forward: rows x n from a contraction over k; dgrad: rows x k over n; wgrad: k x n per expert over the rows.
  const std::int64_t width = pass == GemmPass::dgrad ? k : n;
  const double depth = as_double(pass == GemmPass::dgrad ? n : k) + fill;
  const double column_tiles = as_double(base::ceil_div(width, kTileColumns));
  const double wgrad_tiles = as_double(base::ceil_div(k, tile_rows)) * column_tiles;
  const double tile_area = as_double(tile_rows * kTileColumns);

  Work work;
  for (const std::int64_t count : rows) {
    MOEPLAN_CHECK(count >= 0, "row counts are never negative");
    if (count == 0) continue;
    work.groups += 1;
    work.rows += as_double(count);
    const std::int64_t row_tiles = base::ceil_div(count, tile_rows);
    const double tiles = pass == GemmPass::wgrad ? wgrad_tiles : as_double(row_tiles) * column_tiles;
    const double tile = 2 * tile_area * (pass == GemmPass::wgrad ? as_double(row_tiles * tile_rows) + fill : depth);
    work.tile_flop += tiles * tile;
    work.longest_flop = std::max(work.longest_flop, tile);
  }
  if (work.groups == 0) return 0;

  double efficiency = profile.grouped_gemm.efficiency.value;
  if (pass == GemmPass::dgrad) efficiency *= gemm.dgrad_efficiency.value;
  if (pass == GemmPass::wgrad) efficiency *= gemm.wgrad_efficiency.value;
  const double rate = achieved_peak(profile, precision) * efficiency;
  const double compute_s = std::max(work.tile_flop, work.longest_flop * profile.device.sm_count.value) / rate;
  const double in = operand_bytes(precision);
  const double weight_bytes = (pass == GemmPass::wgrad ? 8.0 : in) * as_double(n) * as_double(k) * work.groups;
  // Rows enter as operands and leave as bf16; both sides of a weight gradient enter.
  const double n_bytes = pass == GemmPass::forward ? 2 : in, k_bytes = pass == GemmPass::dgrad ? 2 : in;
  const double row_bytes = work.rows * (n_bytes * as_double(n) + k_bytes * as_double(k));
  const double memory_s = (weight_bytes + row_bytes) / gemm.bandwidth.value;
  return gemm.launch.value + profile.grouped_gemm.group_overhead.value * work.groups +
         power_join(compute_s, memory_s, gemm.overlap_exponent.value);
}

}  // namespace moeplan::cost
