#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "base/check.h"
#include "base/checked.h"
#include "cost/kernels.h"
#include "cost/roofline.h"

// docs/models.md, Grouped GEMM.
namespace moeplan::cost {
namespace {

constexpr std::int64_t kTileColumns = 128;

// Heights that kernels choose for few rows, as parts of grouped_gemm.tile_rows, and the rate of a multiprocessor on
// them: lower tiles load their weights for fewer FLOPs. 128, 64, 32 and 16 rows are those of fused Triton kernels.
struct Height {
  std::int64_t part;
  double efficiency;
};
constexpr std::array<Height, 4> kHeights = {{{1, 1.0}, {2, 0.8}, {4, 0.5}, {8, 0.25}}};

// Where two floors meet, sums of many groups blend them; fitted with group_issue to SimuMax's grouped products on B200.
constexpr double kIssueExponent = 5;

struct Work {
  double tile_flop = 0;     // summed over tiles, each with its pipeline fill
  double longest_flop = 0;  // of one tile: no call is shorter than its longest tile on one multiprocessor
};

double as_double(std::int64_t value) { return static_cast<double>(value); }

struct Shape {
  std::int64_t n = 0, k = 0;
  GemmPass pass = GemmPass::forward;
  double fill = 0;
};

// forward: rows x n from a contraction over k; dgrad: rows x k over n; wgrad: k x n per expert over the rows.
Work work_of(std::span<const std::int64_t> rows, const Shape& shape, std::int64_t tile_rows) {
  const bool wgrad = shape.pass == GemmPass::wgrad;
  const std::int64_t width = shape.pass == GemmPass::dgrad ? shape.k : shape.n;
  const double depth = as_double(shape.pass == GemmPass::dgrad ? shape.n : shape.k) + shape.fill;
  const double column_tiles = as_double(base::ceil_div(width, kTileColumns));
  const double wgrad_tiles = as_double(base::ceil_div(shape.k, tile_rows)) * column_tiles;
  const double tile_area = as_double(tile_rows * kTileColumns);
  Work work;
  for (const std::int64_t count : rows) {
    if (count == 0) continue;
    const std::int64_t row_tiles = base::ceil_div(count, tile_rows);
    const double tiles = wgrad ? wgrad_tiles : as_double(row_tiles) * column_tiles;
    const double tile = 2 * tile_area * (wgrad ? as_double(row_tiles * tile_rows) + shape.fill : depth);
    work.tile_flop += tiles * tile;
    work.longest_flop = std::max(work.longest_flop, tile);
  }
  return work;
}

}  // namespace

double grouped_gemm_time_s(std::span<const std::int64_t> rows, std::int64_t n, std::int64_t k, GemmPass pass,
                           const topology::HardwareProfile& profile, Precision precision, double gradient_bytes) {
  MOEPLAN_CHECK(n >= 0 && k >= 0, "a shape is never negative");
  if (n == 0 || k == 0) return 0;
  double groups = 0, total_rows = 0;  // groups that have rows
  for (const std::int64_t count : rows) {
    MOEPLAN_CHECK(count >= 0, "row counts are never negative");
    groups += count > 0 ? 1 : 0;
    total_rows += as_double(count);
  }
  if (groups == 0) return 0;

  const topology::HardwareProfile::Gemm& gemm = profile.gemm;
  const topology::HardwareProfile::GroupedGemm& grouped = profile.grouped_gemm;
  double efficiency = grouped.efficiency.value;
  if (pass == GemmPass::dgrad) efficiency *= gemm.dgrad_efficiency.value;
  if (pass == GemmPass::wgrad) efficiency *= gemm.wgrad_efficiency.value;
  const double rate = achieved_peak(profile, precision) * efficiency;
  const std::int64_t tile_rows = std::llround(grouped.tile_rows.value);
  double compute_s = std::numeric_limits<double>::infinity();
  for (const Height& height : kHeights) {
    if (tile_rows % height.part != 0 || (height.part > 1 && pass == GemmPass::wgrad)) continue;
    const Work work = work_of(rows, {n, k, pass, fill_elements(profile, precision)}, tile_rows / height.part);
    const double flop = std::max(work.tile_flop, work.longest_flop * profile.device.sm_count.value);
    compute_s = std::min(compute_s, flop / (rate * height.efficiency));
  }
  const double in = operand_bytes(precision);
  const double weight_bytes = (pass == GemmPass::wgrad ? gradient_bytes : in) * as_double(n) * as_double(k) * groups;
  // Rows enter as operands and leave as bf16; both sides of a weight gradient enter.
  const double n_bytes = pass == GemmPass::forward ? 2 : in, k_bytes = pass == GemmPass::dgrad ? 2 : in;
  const double row_bytes = total_rows * (n_bytes * as_double(n) + k_bytes * as_double(k));
  const double memory_s = (weight_bytes + row_bytes) / gemm.bandwidth.value;
  const double exponent = (grouped.overlap_exponent ? *grouped.overlap_exponent : gemm.overlap_exponent).value;
  const double issue_s = grouped.group_issue ? grouped.group_issue->value * groups : 0;
  return profile.time_scale.grouped_gemm *
         (gemm.launch.value + grouped.group_overhead.value * groups +
          power_join(power_join(compute_s, memory_s, exponent), issue_s, kIssueExponent));
}

}  // namespace moeplan::cost
