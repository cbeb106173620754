#include <algorithm>
#include <array>
#include <limits>

#include "base/check.h"
#include "base/checked.h"
#include "cost/kernels.h"
#include "cost/roofline.h"

// docs/models.md, Dense GEMM.
namespace moeplan::cost {
namespace {

// Output tiles that libraries choose from, with the rate of a multiprocessor on each relative to the largest ones.
// Small tiles load more operand bytes a FLOP. Chosen on every second row of aiconfigurator's bf16 rows for H100 and
// H200 with >= 3 GFLOP (95 of 190); on the other 95 the median error is 6 % (p90 14 %).
struct Tile {
  std::int64_t rows, columns;
  double efficiency;
};
constexpr std::array<Tile, 9> kTiles = {{{128, 256, 1.0},
                                         {256, 128, 1.0},
                                         {128, 192, 0.99},
                                         {192, 128, 0.99},
                                         {128, 128, 0.98},
                                         {64, 256, 0.95},
                                         {256, 64, 0.95},
                                         {64, 128, 0.9},
                                         {64, 64, 0.8}}};

// Rate when the contiguous dimension of an operand is no multiple of 16 bytes (8 elements of bf16): 273 against 398
// TFLOP/s for a width of 10922 against 10944 on H100 (Anthony et al., arXiv 2401.14489, give the rule).
constexpr double kMisaligned = 273.0 / 398.0;

bool aligned(const GemmShape& shape, Precision precision) {
  const bool outputs_only = shape.pass == GemmPass::wgrad;  // NT: both operands are contiguous along the output
  const std::int64_t elements = precision == Precision::bf16 ? 8 : precision == Precision::nvfp4 ? 32 : 16;
  return shape.n % elements == 0 && (outputs_only ? shape.m : shape.k) % elements == 0;
}

// Seconds of the tensor cores: tiles over multiprocessors, at least one wave. Partial waves count as they are: on the
// measured shapes rounding them up is worse (p90 of 14 % against 21 %), because libraries split the last wave.
double compute_s(const GemmShape& shape, const topology::HardwareProfile& profile, Precision precision,
                 double layout_efficiency) {
  const double processors = profile.device.sm_count.value;
  const double flop_per_mn = 2 * (static_cast<double>(shape.k) + fill_elements(profile, precision));
  double best = std::numeric_limits<double>::infinity();
  for (const Tile& tile : kTiles) {
    const double tiles = static_cast<double>(base::ceil_div(shape.m, tile.rows)) *
                         static_cast<double>(base::ceil_div(shape.n, tile.columns));
    const double waves = std::max(1.0, tiles / processors);
    best = std::min(best, waves * static_cast<double>(tile.rows * tile.columns) / tile.efficiency);
  }
  return best * flop_per_mn * processors / (achieved_peak(profile, precision) * layout_efficiency);
}

double model_s(const GemmShape& shape, const topology::HardwareProfile& profile, Precision precision) {
  const topology::HardwareProfile::Gemm& gemm = profile.gemm;
  double efficiency = 1;
  if (shape.pass == GemmPass::dgrad) efficiency = gemm.dgrad_efficiency.value;
  if (shape.pass == GemmPass::wgrad) efficiency = gemm.wgrad_efficiency.value;
  if (!aligned(shape, precision)) efficiency *= kMisaligned;
  const auto m = static_cast<double>(shape.m), n = static_cast<double>(shape.n), k = static_cast<double>(shape.k);
  const double output_bytes = shape.pass == GemmPass::wgrad ? shape.gradient_bytes : 2.0;  // bf16 is written only
  const double memory_s = (operand_bytes(precision) * (m * k + k * n) + output_bytes * m * n) / gemm.bandwidth.value;
  return profile.time_scale.gemm * (gemm.launch.value + power_join(compute_s(shape, profile, precision, efficiency),
                                                                   memory_s, gemm.overlap_exponent.value));
}

const char* pass_name(GemmPass pass) {
  constexpr std::array<const char*, 3> kNames = {"forward", "dgrad", "wgrad"};
  return kNames[static_cast<std::size_t>(pass)];
}

}  // namespace

ShapeTime gemm_time(const GemmShape& shape, const topology::HardwareProfile& profile, Precision precision) {
  MOEPLAN_CHECK(shape.m >= 0 && shape.n >= 0 && shape.k >= 0, "a shape is never negative");
  if (shape.m == 0 || shape.n == 0 || shape.k == 0) return {};
  if (profile.shapes.empty()) return {model_s(shape, profile, precision), Basis::model};
  const std::array<std::int64_t, 3> sizes = {shape.m, shape.n, shape.k};
  return shape_time(
      profile, {"gemm", pass_name(shape.pass), precision_name(precision)}, sizes,
      [&](std::span<const std::int64_t> other) {
        return model_s({other[0], other[1], other[2], shape.pass, shape.gradient_bytes}, profile, precision);
      });
}

double gemm_time_s(const GemmShape& shape, const topology::HardwareProfile& profile, Precision precision) {
  return gemm_time(shape, profile, precision).seconds;
}

}  // namespace moeplan::cost
