#include <doctest/doctest.h>

#include <cmath>

#include "cost/kernels.h"
#include "support.h"

using namespace moeplan;
using cost::gemm_time_s;
using cost::GemmPass;
using cost::GemmShape;
using doctest::Approx;

namespace {

double tflops(const GemmShape& shape, const topology::HardwareProfile& profile) {
  return 2e-12 * static_cast<double>(shape.m) * static_cast<double>(shape.n) * static_cast<double>(shape.k) /
         gemm_time_s(shape, profile);
}

}  // namespace

TEST_CASE("a product without work takes no time") {
  const auto profile = cost::test::round_profile();
  CHECK(gemm_time_s({0, 128, 128, GemmPass::forward}, profile) == 0);
  CHECK(gemm_time_s({128, 0, 128, GemmPass::forward}, profile) == 0);
  CHECK(gemm_time_s({128, 128, 0, GemmPass::forward}, profile) == 0);
  CHECK(gemm_time_s({1, 1, 1, GemmPass::forward}, profile) >= profile.gemm.launch.value);
}

TEST_CASE("whole waves of the largest tile: compute and memory by hand") {
  // m 12800, n 256: 100 tiles of 128 x 256 on 100 multiprocessors, one wave. k 1000 and 1 TFLOP/s each:
  // 2 x 128 x 256 x 1000 / 1e12 = 65.536 us.
  // Bytes: 2 (12800 x 1000 + 1000 x 256 + 12800 x 256) = 32.6656 MB: 32.6656 us at 1 TB/s. Joined with exponent 2.
  const auto profile = cost::test::round_profile();
  const double expected = 2e-6 + std::hypot(65.536e-6, 32.6656e-6);
  CHECK(gemm_time_s({12800, 256, 1000, GemmPass::forward}, profile) == Approx(expected).epsilon(1e-12));
}

TEST_CASE("dgrad runs at its own rate, wgrad also reads and writes fp32") {
  const auto profile = cost::test::round_profile();
  // as above, 65.536 us / 0.8
  CHECK(gemm_time_s({12800, 256, 1000, GemmPass::dgrad}, profile) ==
        Approx(2e-6 + std::hypot(81.92e-6, 32.6656e-6)).epsilon(1e-12));
  // 65.536 us / 0.5; bytes 2 (12.8 M + 0.256 M) + 8 x 3.2768 M = 52.3264 MB
  CHECK(gemm_time_s({12800, 256, 1000, GemmPass::wgrad}, profile) ==
        Approx(2e-6 + std::hypot(131.072e-6, 52.3264e-6)).epsilon(1e-12));
}

TEST_CASE("the pipeline fill lengthens the contraction") {
  auto profile = cost::test::round_profile();
  profile.gemm.k_pad.value = 200;  // 65.536 us x 1200 / 1000
  CHECK(gemm_time_s({12800, 256, 1000, GemmPass::forward}, profile) ==
        Approx(2e-6 + std::hypot(78.6432e-6, 32.6656e-6)).epsilon(1e-12));
}

TEST_CASE("a small product takes one wave of the cheapest tile") {
  // m 64, n 64: one tile of 64 x 64 at 0.8 of 1 TFLOP/s, k 8192: 2 x 64 x 64 x 8192 / 0.8e12 = 83.886 us.
  // Bytes: 2 (2 x 64 x 8192 + 64 x 64) = 2,105,344: 2.105 us.
  const auto profile = cost::test::round_profile();
  CHECK(gemm_time_s({64, 64, 8192, GemmPass::forward}, profile) ==
        Approx(2e-6 + std::hypot(83.88608e-6, 2.105344e-6)).epsilon(1e-9));
  // as does any product that fits in the same tile
  auto no_memory = profile;
  no_memory.gemm.bandwidth.value = 1e18;
  CHECK(gemm_time_s({16, 32, 8192, GemmPass::forward}, no_memory) ==
        Approx(gemm_time_s({64, 64, 8192, GemmPass::forward}, no_memory)).epsilon(1e-6));
}

TEST_CASE("H200: published medians for n, k >= 1024 hold within a tenth") {
  // Medians over n, k >= 1024 (aiconfigurator 095f58a5): 775 TFLOP/s at m 1024, 768 at 4096; the range 700-790 covers
  // most shapes. Bursts have no power cap, so large shapes come out up to 7 % high.
  const auto profile = cost::test::burst("h200-sxm");
  for (const std::int64_t m : {1024, 2048, 4096})
    for (const std::int64_t n : {4096, 8192})
      for (const std::int64_t k : {4096, 8192}) {
        CAPTURE(m);
        CHECK(tflops({m, n, k, GemmPass::forward}, profile) > 700);
        CHECK(tflops({m, n, k, GemmPass::forward}, profile) < 790 * 1.05);
      }
}

TEST_CASE("H200: 8192 cubed lies within 3 % of the 770 to 800 TFLOP/s that are measured") {
  const double rate = tflops({8192, 8192, 8192, GemmPass::forward}, cost::test::burst("h200-sxm"));
  CHECK(rate > 770 * 0.97);
  CHECK(rate < 800 * 1.03);
}

TEST_CASE("H100 falls behind H200 at small m, where memory binds, by the ratio of their bandwidths") {
  // Medians at m 16: 39 and 52 TFLOP/s, a ratio of 0.75; bandwidths 2871 / 3933 = 0.73.
  const GemmShape shape{16, 8192, 8192, GemmPass::forward};
  const double ratio = tflops(shape, cost::test::shipped("h100-sxm")) / tflops(shape, cost::test::shipped("h200-sxm"));
  CHECK(ratio > 0.70);
  CHECK(ratio < 0.80);
}

TEST_CASE("a width that is no multiple of 8 costs a third of the rate, and only where memory is contiguous") {
  const auto profile = cost::test::shipped("h100-sxm");
  // Measured on H100: 273 against 398 TFLOP/s, 0.69.
  const double ratio =
      tflops({8192, 10922, 4096, GemmPass::forward}, profile) / tflops({8192, 10944, 4096, GemmPass::forward}, profile);
  CHECK(ratio == Approx(273.0 / 398.0).epsilon(0.03));
  // Rows of a forward product may be any number; the contraction of a weight gradient, too.
  CHECK(gemm_time_s({8191, 4096, 4096, GemmPass::forward}, profile) <=
        gemm_time_s({8192, 4096, 4096, GemmPass::forward}, profile));
  CHECK(gemm_time_s({4096, 4096, 8191, GemmPass::wgrad}, profile) <=
        gemm_time_s({4096, 4096, 8192, GemmPass::wgrad}, profile));
}

TEST_CASE("more bandwidth, more peak or less launch is never slower: twice the rows are never faster") {
  for (const char* id : {"h100-sxm", "h200-sxm", "ascend-910b-64gb"}) {
    const auto profile = cost::test::shipped(id);
    auto faster_memory = profile, faster_compute = profile;
    faster_memory.gemm.bandwidth.value *= 1.3;
    faster_compute.gemm.peak.value *= 1.3;
    for (const GemmPass pass : {GemmPass::forward, GemmPass::dgrad, GemmPass::wgrad})
      for (std::int64_t m = 8; m <= 1 << 16; m = m * 3 / 2 / 8 * 8 + 8)
        for (const std::int64_t n : {64, 768, 4096, 28672})
          for (const std::int64_t k : {64, 2048, 7168}) {
            const double time = gemm_time_s({m, n, k, pass}, profile);
            CAPTURE(m);
            CAPTURE(n);
            CAPTURE(k);
            REQUIRE(gemm_time_s({m, n, k, pass}, faster_memory) <= time);
            REQUIRE(gemm_time_s({m, n, k, pass}, faster_compute) <= time);
            REQUIRE(gemm_time_s({2 * m, n, k, pass}, profile) >= time);
            // never below either bound
            const double flop = 2.0 * static_cast<double>(m) * static_cast<double>(n) * static_cast<double>(k);
            REQUIRE(time > flop / profile.gemm.peak.value);
          }
  }
}

TEST_CASE("a sustained rate takes the place of the burst rate, and fills of other precisions stay theirs") {
  auto profile = cost::test::round_profile();
  profile.gemm.bandwidth.value = 1e18;
  profile.gemm.k_pad.value = 100;
  profile.gemm.peak_fp8 = topology::Value{200e12, topology::Evidence::assumed, ""};
  const double burst = cost::gemm_time_s({12800, 12800, 1000}, profile) - 2e-6;
  profile.gemm.sustained = topology::Value{50e12, topology::Evidence::assumed, ""};
  CHECK(cost::gemm_time_s({12800, 12800, 1000}, profile) - 2e-6 == doctest::Approx(2 * burst));
  CHECK(cost::achieved_peak(profile, cost::Precision::bf16) == 50e12);
  CHECK(cost::fill_elements(profile, cost::Precision::fp8) == doctest::Approx(400));  // 100 x 200 / 50
  // What steps reach of it: of every precision, so that the fill stays.
  profile.gemm.in_steps = topology::Value{0.8, topology::Evidence::assumed, ""};
  CHECK(cost::achieved_peak(profile, cost::Precision::bf16) == doctest::Approx(40e12));
  CHECK(cost::achieved_peak(profile, cost::Precision::fp8) == doctest::Approx(160e12));
  CHECK(cost::fill_elements(profile, cost::Precision::fp8) == doctest::Approx(400));
  profile.gemm.in_steps.reset();
  // Each precision has a rate of its own: 200 TFLOP/s in bursts, 110 in steps; mxfp8 and nvfp4 go on at their peaks.
  profile.gemm.sustained_fp8 = topology::Value{110e12, topology::Evidence::assumed, ""};
  profile.gemm.peak_mxfp8 = profile.gemm.peak_fp4 = topology::Value{210e12, topology::Evidence::assumed, ""};
  CHECK(cost::achieved_peak(profile, cost::Precision::fp8) == 110e12);
  CHECK(cost::achieved_peak(profile, cost::Precision::mxfp8) == 210e12);
  profile.gemm.sustained_mxfp8 = profile.gemm.sustained_fp4 = topology::Value{90e12, topology::Evidence::assumed, ""};
  CHECK(cost::achieved_peak(profile, cost::Precision::mxfp8) == 90e12);
  CHECK(cost::achieved_peak(profile, cost::Precision::nvfp4) == 90e12);
  profile.gemm.drop_sustained();
  CHECK(cost::achieved_peak(profile, cost::Precision::bf16) == 100e12);
  CHECK(cost::achieved_peak(profile, cost::Precision::fp8) == 200e12);
  CHECK(cost::achieved_peak(profile, cost::Precision::nvfp4) == 210e12);
}
