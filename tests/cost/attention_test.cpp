#include <doctest/doctest.h>

#include <cmath>

#include "cost/kernels.h"
#include "support.h"

using namespace moeplan;
using cost::attention_backward_time_s;
using cost::attention_forward_time_s;
using cost::AttentionShape;
using doctest::Approx;

TEST_CASE("attention without work takes no time, the smallest takes a launch") {
  const auto profile = cost::test::round_profile();
  CHECK(attention_forward_time_s({0, 32, 4096, 128, 128}, profile) == 0);
  CHECK(attention_backward_time_s({1, 32, 0, 128, 128}, profile) == 0);
  CHECK(attention_forward_time_s({1, 1, 1, 128, 128}, profile) == 2e-6);
  CHECK(attention_backward_time_s({1, 1, 1, 128, 128}, profile) == 2e-6);
}

TEST_CASE("head dimension 128 by hand, forward and backward") {
  // FLOP: 2 x 16 x 4000^2 x (128 + 128) = 131.072 G. Rate: 400 TFLOP/s x 4000 / 5000 = 320. 409.6 us.
  const auto profile = cost::test::round_profile();
  const AttentionShape shape{2, 16, 4000, 128, 128};
  CHECK(attention_forward_time_s(shape, profile) == Approx(409.6e-6).epsilon(1e-12));
  // 2.5 times the FLOP at half the rate
  CHECK(attention_backward_time_s(shape, profile) == Approx(5 * 409.6e-6).epsilon(1e-12));
}

TEST_CASE("head dimension 64 has its own rate: between them rate and half length are interpolated") {
  const auto profile = cost::test::round_profile();
  // 2 x 16 x 3000^2 x 128 = 36.864 G; 200 x 3000 / 6000 = 100 TFLOP/s
  CHECK(attention_forward_time_s({2, 16, 3000, 64, 64}, profile) == Approx(368.64e-6).epsilon(1e-12));
  // dimension 96 is half way: peak 300, half length 2000; 2 x 16 x 2000^2 x 192 = 24.576 G at 150 TFLOP/s
  CHECK(attention_forward_time_s({2, 16, 2000, 96, 96}, profile) == Approx(163.84e-6).epsilon(1e-12));
  // below 64 and above 128 the ends hold: latent attention with 192 and 128 counts as 128
  // 1 x 10 x 1000^2 x 320 = 3.2 G at 400 x 1000 / 2000 = 200 TFLOP/s
  CHECK(attention_forward_time_s({1, 10, 1000, 192, 128}, profile) == Approx(16e-6).epsilon(1e-12));
}

TEST_CASE("H200: medians of FlashAttention 3 hold within a tenth") {
  // TFLOP/s with causal FLOP halved, 32 heads and more, head dimension 128 and 64 (aiconfigurator 095f58a5)
  const auto profile = cost::test::shipped("h200-sxm");
  struct Row {
    std::int64_t seq, dim;
    double tflops;
  };
  for (const Row& row : {Row{1024, 128, 283}, Row{2048, 128, 427}, Row{4096, 128, 524}, Row{8192, 128, 576},
                         Row{1024, 64, 200}, Row{2048, 64, 312}, Row{4096, 64, 404}, Row{8192, 64, 455}}) {
    CAPTURE(row.seq);
    const double flop = 32.0 * static_cast<double>(row.seq * row.seq * 2 * row.dim);
    CHECK(1e-12 * flop / attention_forward_time_s({1, 32, row.seq, row.dim, row.dim}, profile) ==
          Approx(row.tflops).epsilon(0.10));
  }
}

TEST_CASE("H100: backward of FlashAttention 3 at 2048 and 8192 tokens holds within a tenth") {
  // tritonbench, batch 4, 48 heads, head dimension 128: 1631 and 15308 us
  const auto profile = cost::test::shipped("h100-sxm");
  CHECK(attention_backward_time_s({4, 48, 2048, 128, 128}, profile) == Approx(1631e-6).epsilon(0.10));
  CHECK(attention_backward_time_s({4, 48, 8192, 128, 128}, profile) == Approx(15308e-6).epsilon(0.10));
}

TEST_CASE("longer sequences are never faster") {
  const auto profile = cost::test::shipped("h200-sxm");
  double before = 0;
  for (std::int64_t seq = 1; seq < 200000; seq = seq * 5 / 4 + 1) {
    const double time = attention_forward_time_s({1, 32, seq, 128, 128}, profile);
    CHECK(time >= before);
    before = time;
  }
}

TEST_CASE("launch, tail and head dimensions of their own by hand") {
  auto profile = cost::test::round_profile();
  const auto value = [](double number) { return topology::Value{number, topology::Evidence::assumed, ""}; };
  // 2 x 16 x 4000 x (4000 + 1000) x 256 = 163.84 G at 400 TFLOP/s: 409.6 us, as above.
  const AttentionShape shape{2, 16, 4000, 128, 128};
  profile.attention.launch = value(10e-6);
  CHECK(attention_forward_time_s(shape, profile) == Approx(419.6e-6).epsilon(1e-12));
  // The longest tile: 2 x 128 rows x (4000 + 500) x 256 = 294.912 M on one of 100 multiprocessors: 73.728 us.
  profile.attention.tail = value(0.5);
  CHECK(attention_forward_time_s(shape, profile) == Approx(10e-6 + std::hypot(409.6e-6, 36.864e-6)).epsilon(1e-12));
  profile.attention.tile_rows = value(256);
  CHECK(attention_forward_time_s(shape, profile) == Approx(10e-6 + std::hypot(409.6e-6, 73.728e-6)).epsilon(1e-12));
  // One head: 2000 x 3000 x 256 / 400 T = 3.84 us of work, and half of the longest tile, 2 x 256 x 2500 x 256 on one
  // multiprocessor: 40.96 us.
  CHECK(attention_forward_time_s({1, 1, 2000, 128, 128}, profile) ==
        Approx(10e-6 + std::hypot(3.84e-6, 40.96e-6)).epsilon(1e-12));
  // Backward: 2.5 FLOP at half the rate; half length 3000 and no tail: 2.5 x 2 x 2 x 16 x 4000 x 7000 x 256 / 400 T.
  profile.attention.backward_half_length = value(3000);
  profile.attention.backward_tail = value(0);
  CHECK(attention_backward_time_s(shape, profile) == Approx(10e-6 + 2867.2e-6).epsilon(1e-12));
  profile.attention.backward_launch = value(30e-6);
  CHECK(attention_backward_time_s(shape, profile) == Approx(30e-6 + 2867.2e-6).epsilon(1e-12));
  // Keys wider than values: 1 x 10 x 1000 x (1000 + 1000) x 320 = 6.4 G at 320 TFLOP/s.
  profile.attention.tail = value(0);
  profile.attention.peak_mla = value(320e12);
  profile.attention.half_length_mla = value(1000);
  CHECK(attention_forward_time_s({1, 10, 1000, 192, 128}, profile) == Approx(10e-6 + 20e-6).epsilon(1e-12));
  // 192 is half way from 128 to 256: peak 500, half length 500. 10 x 1000 x 1500 x 384 = 5.76 G.
  profile.attention.peak_hd256 = value(600e12);
  profile.attention.half_length_hd256 = value(0);
  CHECK(attention_forward_time_s({1, 10, 1000, 192, 192}, profile) == Approx(10e-6 + 11.52e-6).epsilon(1e-12));
  CHECK(attention_forward_time_s({1, 10, 1000, 512, 512}, profile) ==
        Approx(10e-6 + 10 * 1000.0 * 1000 * 1024 / 600e12).epsilon(1e-12));
}
