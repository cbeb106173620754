#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "cost/kernels.h"
#include "support.h"

using namespace moeplan;
using cost::GemmPass;
using cost::grouped_gemm_time_s;
using doctest::Approx;
using Rows = std::vector<std::int64_t>;

TEST_CASE("no rows, no time: an empty expert costs nothing") {
  const auto profile = cost::test::round_profile();
  CHECK(grouped_gemm_time_s(Rows{}, 1024, 1024, GemmPass::forward, profile) == 0);
  CHECK(grouped_gemm_time_s(Rows{0, 0, 0}, 1024, 1024, GemmPass::forward, profile) == 0);
  for (const GemmPass pass : {GemmPass::forward, GemmPass::dgrad, GemmPass::wgrad})
    CHECK(grouped_gemm_time_s(Rows{256, 0, 512, 0}, 1024, 1024, pass, profile) ==
          grouped_gemm_time_s(Rows{256, 512}, 1024, 1024, pass, profile));
}

TEST_CASE("two experts by hand: forward") {
  // 5120 and 1280 rows are 40 and 10 row tiles of 128; n 256 is 2 column tiles: 100 tiles, one wave of 100.
  // A tile: 2 x 128 x 128 x 1000 FLOP at 0.5 of 1 TFLOP/s = 65.536 us.
  // Bytes: weights 2 x 2 x 256 x 1000 = 1.024 MB, rows 2 x 6400 x (256 + 1000) = 16.0768 MB; 17.1008 us at 1 TB/s.
  // Launch 2 us, two groups of 1 us.
  const auto profile = cost::test::round_profile();
  const double expected = 4e-6 + std::hypot(65.536e-6, 17.1008e-6);
  CHECK(grouped_gemm_time_s(Rows{5120, 1280}, 256, 1000, GemmPass::forward, profile) ==
        Approx(expected).epsilon(1e-12));
}

TEST_CASE("two experts by hand: data gradient contracts over n") {
  // Output rows x k: n 1000, k 256 is the forward case above with the parts exchanged, at 0.8 of the rate.
  const auto profile = cost::test::round_profile();
  const double expected = 4e-6 + std::hypot(81.92e-6, 17.1008e-6);
  CHECK(grouped_gemm_time_s(Rows{5120, 1280}, 1000, 256, GemmPass::dgrad, profile) == Approx(expected).epsilon(1e-12));
}

TEST_CASE("two experts by hand: weight gradient contracts over the rows and accumulates in fp32") {
  // Output 1280 x 1280 per expert: 10 x 10 tiles each. Contraction 5120 and 1280 rows:
  // 100 x 2 x 128 x 128 x (5120 + 1280) = 20.97152 GFLOP at 100 TFLOP/s x 0.5 x 0.5 = 838.8608 us.
  // Bytes: 8 x 1280 x 1280 x 2 = 26.2144 MB, rows 2 x 6400 x 2560 = 32.768 MB: 58.9824 us.
  const auto profile = cost::test::round_profile();
  const double expected = 4e-6 + std::hypot(838.8608e-6, 58.9824e-6);
  CHECK(grouped_gemm_time_s(Rows{5120, 1280}, 1280, 1280, GemmPass::wgrad, profile) == Approx(expected).epsilon(1e-12));
}

TEST_CASE("rows are padded to whole tiles: 128 and 129 on both sides of the step") {
  auto profile = cost::test::round_profile();
  profile.gemm.bandwidth.value = 1e18;
  const auto time = [&](std::int64_t rows) {
    return grouped_gemm_time_s(Rows(50, rows), 256, 1000, GemmPass::forward, profile) - 52e-6;
  };
  CHECK(time(128) == Approx(65.536e-6).epsilon(1e-9));  // 50 x 1 x 2 = 100 tiles of 128 rows, one wave
  CHECK(time(65) == Approx(65.536e-6).epsilon(1e-9));   // of 64 rows 200 tiles: 2 x 32.768 / 0.8 = 81.92 us
  // 129 rows: 200 tiles of 128 rows take 131.072 us, 300 of 64 rows at 0.8 of the rate 3 x 32.768 / 0.8.
  CHECK(time(129) == Approx(122.88e-6).epsilon(1e-9));
}

TEST_CASE("few rows take lower tiles at lower rates") {
  auto profile = cost::test::round_profile();
  profile.gemm.bandwidth.value = 1e18;
  // 100 tiles of 16 rows, 2 x 16 x 128 x 1000 FLOP each, at a quarter of 0.5 TFLOP/s: 32.768 us.
  CHECK(grouped_gemm_time_s(Rows(50, 1), 256, 1000, GemmPass::forward, profile) == Approx(52e-6 + 32.768e-6));
  // Heights are parts of tile_rows: 129 has none but itself.
  profile.grouped_gemm.tile_rows.value = 129;
  CHECK(grouped_gemm_time_s(Rows(50, 1), 256, 1000, GemmPass::forward, profile) ==
        Approx(52e-6 + 65.536e-6 * 129 / 128));
}

TEST_CASE("a library that issues one product a group has a floor a group, blended where it meets the work") {
  auto profile = cost::test::round_profile();
  profile.gemm.bandwidth.value = 1e18;
  const Rows rows(50, 128);  // 65.536 us of work, as above
  profile.grouped_gemm.group_issue = topology::Value{0, topology::Evidence::assumed, ""};
  CHECK(grouped_gemm_time_s(rows, 256, 1000, GemmPass::forward, profile) == Approx(52e-6 + 65.536e-6));
  profile.grouped_gemm.group_issue->value = 9e-6;  // 450 us, against which the work does not count
  CHECK(grouped_gemm_time_s(rows, 256, 1000, GemmPass::forward, profile) == Approx(52e-6 + 450e-6).epsilon(1e-4));
  profile.grouped_gemm.group_issue->value = 65.536e-6 / 50;  // as long as the work: 2^(1/5)
  CHECK(grouped_gemm_time_s(rows, 256, 1000, GemmPass::forward, profile) ==
        Approx(52e-6 + 65.536e-6 * std::pow(2.0, 0.2)));
}

TEST_CASE("weight gradients in bf16 move half the bytes, and groups may overlap otherwise than dense products") {
  // The weight gradient above: 838.8608 us of work; bytes 4 x 1280 x 1280 x 2 + 32.768 M = 45.8752 M.
  auto profile = cost::test::round_profile();
  CHECK(grouped_gemm_time_s(Rows{5120, 1280}, 1280, 1280, GemmPass::wgrad, profile, cost::Precision::bf16, 4) ==
        Approx(4e-6 + std::hypot(838.8608e-6, 45.8752e-6)).epsilon(1e-12));
  profile.grouped_gemm.overlap_exponent = topology::Value{1, topology::Evidence::assumed, ""};
  CHECK(grouped_gemm_time_s(Rows{5120, 1280}, 1280, 1280, GemmPass::wgrad, profile) ==
        Approx(4e-6 + 838.8608e-6 + 58.9824e-6).epsilon(1e-12));
}

TEST_CASE("weights are a floor: few rows an expert take the time to read the weights") {
  const auto profile = cost::test::shipped("h200-sxm");
  // 128 experts of 2048 x 1536 in bf16: 805 MB at 3933 GB/s = 204.8 us
  const double floor_s = 128 * 2048.0 * 1536 * 2 / profile.gemm.bandwidth.value;
  const double time = grouped_gemm_time_s(Rows(128, 4), 1536, 2048, GemmPass::forward, profile);
  CHECK(time > floor_s);
  CHECK(time < 1.2 * floor_s);
}

TEST_CASE("H200: the rates of the two published shapes hold within a tenth") {
  // Fused MoE layer forward (aiconfigurator 095f58a5): two grouped GEMMs plus permute and activation.
  // Qwen3-30B, 1024 rows on each of 128 experts: 502 TFLOP/s for the layer is 2464 us; without 313 us of memory-bound
  // work 575. Mixtral, 4096 rows on each of 8: 665 is 17361 us; without 820 us 698.
  const auto profile = cost::test::burst("h200-sxm");
  const auto layer_tflops = [&](std::size_t experts, std::int64_t rows, std::int64_t hidden, std::int64_t ffn) {
    const Rows each(experts, rows);
    const double time = grouped_gemm_time_s(each, 2 * ffn, hidden, GemmPass::forward, profile) +
                        grouped_gemm_time_s(each, hidden, ffn, GemmPass::forward, profile);
    return 6e-12 * static_cast<double>(experts) * static_cast<double>(rows * hidden * ffn) / time;
  };
  CHECK(layer_tflops(128, 1024, 2048, 768) == Approx(575).epsilon(0.10));
  CHECK(layer_tflops(8, 4096, 4096, 14336) == Approx(698).epsilon(0.10));
}

TEST_CASE("permuting experts changes nothing: more rows are never faster: more bandwidth is never slower") {
  for (const char* id : {"h100-sxm", "ascend-910b-64gb"}) {
    const auto profile = cost::test::shipped(id);
    auto faster = profile;
    faster.gemm.bandwidth.value *= 1.5;
    for (const GemmPass pass : {GemmPass::forward, GemmPass::dgrad, GemmPass::wgrad}) {
      Rows rows{3000, 17, 0, 129, 128, 4096, 1, 511};
      const double time = grouped_gemm_time_s(rows, 4096, 7168, pass, profile);
      CHECK(grouped_gemm_time_s(rows, 4096, 7168, pass, faster) <= time);
      for (std::size_t e = 0; e < rows.size(); ++e) {
        Rows more = rows;
        more[e] += 1;
        CHECK(grouped_gemm_time_s(more, 4096, 7168, pass, profile) >= time);
      }
      std::sort(rows.begin(), rows.end());
      CHECK(grouped_gemm_time_s(rows, 4096, 7168, pass, profile) == Approx(time).epsilon(1e-12));
    }
  }
}
