#include <doctest/doctest.h>

#include <cmath>

#include "cost/evidence.h"
#include "cost/kernels.h"
#include "support.h"

using namespace moeplan;
using cost::gemm_time_s;
using cost::GemmPass;
using cost::Precision;
using doctest::Approx;

namespace {

topology::Value value(double number) { return {number, topology::Evidence::published, "test"}; }

// The round profile with 200 TFLOP/s in fp8 and mxfp8 and 400 in fp4, achieved; twice that in the datasheet.
topology::HardwareProfile blackwell() {
  topology::HardwareProfile profile = cost::test::round_profile();
  profile.device.peak_bf16 = value(200e12);
  profile.device.peak_fp8 = value(400e12);
  profile.device.peak_fp4 = value(800e12);
  profile.gemm.peak_fp8 = profile.gemm.peak_mxfp8 = value(200e12);
  profile.gemm.peak_fp4 = value(400e12);
  return profile;
}

}  // namespace

TEST_CASE("a part has the precisions whose achieved peak its profile states: bf16 always") {
  const auto plain = cost::test::round_profile();
  CHECK(supports(plain, Precision::bf16));
  for (const Precision precision : {Precision::fp8, Precision::mxfp8, Precision::nvfp4}) {
    CHECK(!supports(plain, precision));
    CHECK(supports(blackwell(), precision));
  }
  CHECK(supports(cost::test::shipped("h100-sxm"), Precision::fp8));
  CHECK(!supports(cost::test::shipped("h100-sxm"), Precision::mxfp8));
  CHECK(!supports(cost::test::shipped("a100-sxm-80gb"), Precision::fp8));
  CHECK(supports(cost::test::shipped("gb300-nvl72"), Precision::nvfp4));
}

TEST_CASE("peaks and operand bytes of each precision") {
  const auto profile = blackwell();
  CHECK(datasheet_peak(profile, Precision::bf16) == 200e12);
  CHECK(datasheet_peak(profile, Precision::mxfp8) == 400e12);
  CHECK(datasheet_peak(profile, Precision::nvfp4) == 800e12);
  CHECK(achieved_peak(profile, Precision::bf16) == 100e12);
  CHECK(achieved_peak(profile, Precision::nvfp4) == 400e12);
  CHECK(cost::operand_bytes(Precision::bf16) == 2);
  CHECK(cost::operand_bytes(Precision::fp8) == 1);
  CHECK(cost::operand_bytes(Precision::mxfp8) == 1.03125);  // one scale byte for 32 elements
  CHECK(cost::operand_bytes(Precision::nvfp4) == 0.5625);   // one for 16
}

TEST_CASE("a product in each precision by hand: compute") {
  // m = 1280, n = 2560, k = 1e6: 100 tiles of 128 x 256 on 100 multiprocessors. 2mnk = 6.5536e12 FLOP: 65536 us in
  // bf16, half in fp8, a quarter in nvfp4. Operands 3.84e9 elements: in bf16 7.68e9 B at 1 TB/s = 7680 us, joined with
  // q = 2.
  auto profile = blackwell();
  const cost::GemmShape shape{1280, 2560, 1000000, GemmPass::forward};
  const double out_us = 2 * 1280.0 * 2560 / 1e6;
  const auto expected = [&](double compute_us, double operand_us) {
    const double memory_us = operand_us + out_us;
    return (2 + std::sqrt(compute_us * compute_us + memory_us * memory_us)) * 1e-6;
  };
  CHECK(gemm_time_s(shape, profile) == Approx(expected(65536, 7680)));
  CHECK(gemm_time_s(shape, profile, Precision::bf16) == gemm_time_s(shape, profile));
  CHECK(gemm_time_s(shape, profile, Precision::fp8) == Approx(expected(32768, 3840)));
  CHECK(gemm_time_s(shape, profile, Precision::mxfp8) == Approx(expected(32768, 3840 * 1.03125)));
  CHECK(gemm_time_s(shape, profile, Precision::nvfp4) == Approx(expected(16384, 3840 * 0.5625)));
}

TEST_CASE("the pipeline fills for as long in every precision") {
  auto profile = blackwell();
  profile.gemm.k_pad.value = 100;
  CHECK(fill_elements(profile, Precision::bf16) == 100);
  CHECK(fill_elements(profile, Precision::fp8) == 200);
  CHECK(fill_elements(profile, Precision::nvfp4) == 400);
}

TEST_CASE("operands are aligned to 16 bytes: 8 elements of bf16, 16 of fp8, 32 of nvfp4") {
  auto profile = blackwell();
  profile.gemm.bandwidth.value = 1e18;  // compute alone
  const auto time = [&](std::int64_t n, Precision precision) {
    return gemm_time_s({128000, n, 4096, GemmPass::forward}, profile, precision);
  };
  // the same tiles for n = 2552 .. 2560: only alignment differs
  CHECK(time(2552, Precision::bf16) == Approx(time(2560, Precision::bf16)));
  CHECK(time(2552, Precision::fp8) > 1.4 * time(2560, Precision::fp8));
  CHECK(time(2544, Precision::fp8) == Approx(time(2560, Precision::fp8)));
  CHECK(time(2544, Precision::nvfp4) > 1.4 * time(2560, Precision::nvfp4));
}

TEST_CASE("grouped products: weights and rows shrink with the precision, outputs do not") {
  auto profile = blackwell();
  profile.gemm.bandwidth.value = 1e9;  // memory alone
  const std::vector<std::int64_t> rows{100, 50};
  const auto memory_us = [&](GemmPass pass, Precision precision) {
    return (cost::grouped_gemm_time_s(rows, 1000, 2000, pass, profile, precision) - 4e-6) * 1e6;
  };
  // forward in fp8: weights 2 x 2e6 B, rows in 150 x 2000 B, rows out 150 x 1000 x 2 B = 4.6 MB at 1 GB/s
  CHECK(memory_us(GemmPass::forward, Precision::fp8) == Approx(4600).epsilon(1e-3));
  CHECK(memory_us(GemmPass::forward, Precision::bf16) == Approx(8900).epsilon(1e-3));
  // dgrad: weights 4e6, rows in 150 x 1000, out 150 x 2000 x 2
  CHECK(memory_us(GemmPass::dgrad, Precision::fp8) == Approx(4750).epsilon(1e-3));
  // wgrad: fp32 accumulation 8 x 4e6, both inputs 150 x 3000
  CHECK(memory_us(GemmPass::wgrad, Precision::fp8) == Approx(32450).epsilon(1e-3));
}

TEST_CASE("shipped parts: large products are faster in every narrower precision, and slower than the datasheet") {
  const cost::GemmShape shape{8192, 8192, 8192, GemmPass::forward};
  const double flop = 2 * 8192.0 * 8192 * 8192;
  for (const char* id : {"h100-sxm", "h200-sxm", "h800-sxm", "b200-sxm", "b300-sxm", "gb200-nvl72", "gb300-nvl72",
                         "mi355x", "l40s", "rtx-4090", "rtx-5090", "h20", "h100-pcie", "h100-96gb"}) {
    CAPTURE(id);
    const auto profile = cost::test::shipped(id);
    double slower = gemm_time_s(shape, profile);
    CHECK(flop / slower < datasheet_peak(profile, Precision::bf16));
    for (const Precision precision : {Precision::fp8, Precision::nvfp4}) {
      if (!supports(profile, precision)) continue;
      const double time = gemm_time_s(shape, profile, precision);
      CHECK(time < slower);
      CHECK(flop / time < datasheet_peak(profile, precision));
      slower = time;
    }
  }
}

TEST_CASE("H100: cuBLASLt in fp8 reaches 1290 TFLOP/s for 8192 cubed") {
  const auto profile = cost::test::burst("h100-sxm");
  const double time = gemm_time_s({8192, 8192, 8192, GemmPass::forward}, profile, Precision::fp8);
  CHECK(2 * 8192.0 * 8192 * 8192 / time == Approx(1290e12).epsilon(0.05));
}

TEST_CASE("evidence: the peak of a precision counts only where it is used") {
  auto profile = blackwell();
  for (topology::Value* part : {&profile.device.sm_count, &profile.gemm.launch, &profile.gemm.bandwidth,
                                &profile.gemm.peak, &profile.gemm.k_pad, &profile.gemm.overlap_exponent,
                                &profile.gemm.dgrad_efficiency, &profile.gemm.wgrad_efficiency})
    part->evidence = topology::Evidence::published;
  profile.gemm.peak_fp8->evidence = topology::Evidence::assumed;
  const auto dense = [&](Precision precision) { return cost::family_evidence(profile, precision).front(); };
  CHECK(dense(Precision::bf16).evidence == topology::Evidence::published);
  CHECK(dense(Precision::mxfp8).evidence == topology::Evidence::published);
  CHECK(dense(Precision::fp8).evidence == topology::Evidence::assumed);
  CHECK(dense(Precision::fp8).weakest_key == "gemm.peak_fp8");
}

TEST_CASE("a copy between device and host by hand") {
  auto profile = cost::test::round_profile();
  CHECK(!cost::has_host_link(profile));
  CHECK(cost::host_copy_time_s(0, profile) == 0);
  profile.network.host_link_bandwidth = value(50e9);
  CHECK(cost::has_host_link(profile));
  CHECK(cost::host_copy_time_s(1e6, profile) == Approx(22e-6));  // 2 us and 1 MB at 50 GB/s
}
