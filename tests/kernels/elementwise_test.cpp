#include "kernels/elementwise.h"

#include "support.h"

namespace moeplan::kernels {
namespace {
using namespace testing;
// A thread's eight elements, a block's 2048, and one to either side.
constexpr std::int64_t kCounts[] = {1, 7, 8, 9, 2047, 2048, 2049, 4100};
}  // namespace

TEST_CASE("casts round each value as one alone, and widen without loss") {
  for (const std::int64_t count : kCounts) {
    const Data<float> values = floats(count, 1, 100);
    const Data<Bf16> narrow = in_both_orders([&](Order order) {
      Data<Bf16> out(at(count));
      run_on_host(CastToBf16{values.data(), out.data(), count}, order);
      return out;
    });
    const Data<float> wide = in_both_orders([&](Order order) {
      Data<float> out(at(count));
      run_on_host(CastToFloat{narrow.data(), out.data(), count}, order);
      return out;
    });
    for (std::int64_t i = 0; i < count; ++i) {
      REQUIRE(narrow[at(i)].bits == to_bf16(values[at(i)]).bits);
      REQUIRE(wide[at(i)] == to_float(narrow[at(i)]));
      REQUIRE(error(wide[at(i)], values[at(i)], std::abs(values[at(i)]) + 1e-9) < kBf16);
    }
  }
}

TEST_CASE("copies and sums of packs, on both sides of a block of threads") {
  for (const std::int64_t count : {1, 255, 256, 257}) {
    const Data<Bf16> a = bf16s(count * 8, 1), b = bf16s(count * 8, 2);
    const Data<Bf16> copy = in_both_orders([&](Order order) {
      Data<Bf16> out(at(count * 8));
      run_on_host(Copy{packs(a), packs(out), count}, order);
      return out;
    });
    CHECK(same_bits(copy, a));
    const Data<Bf16> sum = in_both_orders([&](Order order) {
      Data<Bf16> out(a);
      run_on_host(Add{packs(out), packs(b), packs(out), count}, order);  // in place
      return out;
    });
    for (std::size_t i = 0; i < a.size(); ++i) REQUIRE(sum[i].bits == to_bf16(to_float(a[i]) + to_float(b[i])).bits);
  }
}

TEST_CASE("Adam's two steps equal double precision, on both sides of a thread and of a block") {
  for (const std::int64_t count : {1, 3, 4, 5, 1023, 1024, 1025}) {
    const Data<float> start = floats(count, 1), gradient = floats(count, 2, 0.1F);
    const auto step = [&](Data<float>& w, Data<float>& m, Data<float>& v, Data<Bf16>& p, int t, Order order) {
      run_on_host(Adam{w.data(), m.data(), v.data(), gradient.data(), p.data(), count, 1e-2F, 0.9F, 0.95F, 1e-8F, 0.1F,
                       1 - std::pow(0.9F, static_cast<float>(t)), 1 - std::pow(0.95F, static_cast<float>(t))},
                  order);
    };
    Data<Bf16> parameter(at(count));
    const Data<float> master = in_both_orders([&](Order order) {
      Data<float> w = start, m(at(count)), v(at(count));
      step(w, m, v, parameter, 1, order);
      step(w, m, v, parameter, 2, order);
      return w;
    });
    for (std::int64_t i = 0; i < count; ++i) {
      double w = start[at(i)], m = 0, v = 0;
      const double g = gradient[at(i)];
      for (int t = 1; t <= 2; ++t) {
        m = 0.9 * m + 0.1 * g;
        v = 0.95 * v + 0.05 * g * g;
        w -= 1e-2 * (m / (1 - std::pow(0.9, t)) / (std::sqrt(v / (1 - std::pow(0.95, t))) + 1e-8) + 0.1 * w);
      }
      REQUIRE(error(master[at(i)], w, 1) < 2 * kFloat);
      REQUIRE(parameter[at(i)].bits == to_bf16(master[at(i)]).bits);
    }
  }
}

TEST_CASE("random data lies within its scale, has its mean and spread, and depends on seed and position alone") {
  const std::int64_t count = 100000;
  const Data<float> data = in_both_orders([&](Order order) {
    Data<float> out(at(count));
    run_on_host(FillRandom<float>{out.data(), count, 77, 2}, order);
    return out;
  });
  double sum = 0, squares = 0;
  for (const float value : data) {
    REQUIRE(std::abs(value) <= 2);
    sum += value;
    squares += static_cast<double>(value) * value;
  }
  // Uniform on (-2, 2): mean 0 +- 4 sigma = 4 * 1.155 / sqrt(1e5) = 0.015, mean square 4/3 +- 4 * 1.19 / sqrt(1e5).
  CHECK(std::abs(sum / static_cast<double>(count)) < 0.015);
  CHECK(std::abs(squares / static_cast<double>(count) - 4.0 / 3) < 0.016);
  Data<Bf16> narrow(at(count)), other(at(count));
  run_on_host(FillRandom<Bf16>{narrow.data(), count, 77, 2});
  run_on_host(FillRandom<Bf16>{other.data(), count, 78, 2});
  for (std::int64_t i = 0; i < count; ++i) REQUIRE(narrow[at(i)].bits == to_bf16(data[at(i)]).bits);
  CHECK_FALSE(same_bits(narrow, other));
}

}  // namespace moeplan::kernels
