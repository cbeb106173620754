#include "kernels/swiglu.h"

#include "support.h"

namespace moeplan::kernels {
namespace {
using namespace testing;
double silu(double g) { return g / (1 + std::exp(-g)); }
}  // namespace

TEST_CASE("SwiGLU and its backward equal double precision, on both sides of a block of threads") {
  constexpr std::int64_t kRows = 4;
  // 1016 values are 127 packs, one fewer than threads; 1032 one more.
  for (const std::int64_t ffn : {8, 1016, 1024, 1032}) {
    const Data<Bf16> gate_up = bf16s(kRows * 2 * ffn, 1, 8), gradient = bf16s(kRows * ffn, 2);
    const Data<float> weights = floats(kRows, 3);
    const Data<Bf16> act = in_both_orders([&](Order order) {
      Data<Bf16> out(at(kRows * ffn));
      run_on_host(SwiGlu{packs(gate_up), weights.data(), packs(out), kRows, ffn}, order);
      return out;
    });
    Data<float> weight_gradient(at(kRows));
    const auto backward = [&](Data<Bf16>& out, Order order) {
      run_on_host(SwiGluBackward{packs(gate_up), weights.data(), packs(gradient), packs(out), weight_gradient.data(),
                                 kRows, ffn},
                  order);
    };
    const Data<float> sums = in_both_orders([&](Order order) {
      Data<Bf16> out(at(kRows * 2 * ffn));
      backward(out, order);
      return weight_gradient;
    });
    const Data<Bf16> grads = in_both_orders([&](Order order) {
      Data<Bf16> out(at(kRows * 2 * ffn));
      backward(out, order);
      return out;
    });
    for (std::int64_t row = 0; row < kRows; ++row) {
      double sum = 0, size = 0;
      const double w = weights[at(row)];
      for (std::int64_t i = 0; i < ffn; ++i) {
        const double g = to_float(gate_up[at(row * 2 * ffn + i)]), u = to_float(gate_up[at((row * 2 + 1) * ffn + i)]);
        const double d = to_float(gradient[at(row * ffn + i)]), s = 1 / (1 + std::exp(-g));
        const double expected = w * silu(g) * u, dg = d * w * u * s * (1 + g * (1 - s)), du = d * w * silu(g);
        // Rounded to bf16, from sums in fp32 whose parts are as large as `parts`: 1 and g (1 - s) may cancel.
        const double parts = std::abs(d * w * u) * s * (1 + std::abs(g) * (1 - s));
        REQUIRE(error(to_float(act[at(row * ffn + i)]), expected, std::abs(expected) + 1e-6) < kBf16 + kFloat);
        REQUIRE(std::abs(to_float(grads[at(row * 2 * ffn + i)]) - dg) < kBf16 * std::abs(dg) + kFloat * parts + 1e-9);
        REQUIRE(error(to_float(grads[at((row * 2 + 1) * ffn + i)]), du, std::abs(du) + 1e-6) < kBf16 + kFloat);
        sum += d * silu(g) * u;
        size += std::abs(d * silu(g) * u);
      }
      CHECK(error(sums[at(row)], sum, size) < kFloat);
    }
  }
}

TEST_CASE("the derivative of the activation is the slope between two points beside") {
  // f(g) = silu(g) * 1 at w = 1: (f(g + h) - f(g - h)) / 2h with h = 1e-4 is exact to about 1e-8.
  for (const float g : {-6.0F, -1.25F, 0.0F, 0.5F, 3.0F}) {
    Data<Bf16> gate_up(16, to_bf16(1)), gradient(8, to_bf16(1)), out(16);
    for (int i = 0; i < 8; ++i) gate_up[at(i)] = to_bf16(g);
    const Data<float> one(1, 1);
    Data<float> weight_gradient(1);
    run_on_host(SwiGluBackward{packs(gate_up), one.data(), packs(gradient), packs(out), weight_gradient.data(), 1, 8});
    const double slope = (silu(g + 1e-4) - silu(g - 1e-4)) / 2e-4;
    CHECK(to_float(out[0]) == doctest::Approx(slope).epsilon(kBf16));
    CHECK(weight_gradient[0] == doctest::Approx(8 * silu(g)).epsilon(1e-5));
  }
}

TEST_CASE("gates far from zero saturate without a number that is none") {
  Data<Bf16> gate_up(32), gradient(16, to_bf16(1)), act(16), out(32);
  for (int i = 0; i < 16; ++i) {
    gate_up[at(i)] = to_bf16(-1e4F);  // of row 0: gates, ups
    gate_up[at(16 + i)] = to_bf16(1e4F);
  }
  const Data<float> weights(2, 1);
  Data<float> weight_gradient(2);
  run_on_host(SwiGlu{packs(gate_up), weights.data(), packs(act), 2, 8});
  run_on_host(
      SwiGluBackward{packs(gate_up), weights.data(), packs(gradient), packs(out), weight_gradient.data(), 2, 8});
  CHECK(to_float(act[0]) == 0);
  CHECK(to_float(act[8]) == doctest::Approx(1e8).epsilon(2 * kBf16));
  for (const Bf16 value : out) CHECK(std::isfinite(to_float(value)));
}

}  // namespace moeplan::kernels
