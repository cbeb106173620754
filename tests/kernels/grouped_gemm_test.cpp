#include "kernels/grouped_gemm.h"

#include <algorithm>

#include "support.h"

namespace moeplan::kernels {
namespace {
using namespace testing;

struct Case {
  std::vector<std::int64_t> rows;
  std::int64_t n, k;
};

void check(const Case& c) {
  const auto experts = static_cast<int>(c.rows.size());
  Data<std::int64_t> offsets{0};
  for (const std::int64_t count : c.rows) offsets.push_back(offsets.back() + count);
  const std::int64_t total = offsets.back(), most = *std::max_element(c.rows.begin(), c.rows.end());
  const Data<Bf16> x = bf16s(total * c.k, 1), dy = bf16s(total * c.n, 2), w = bf16s(experts * c.n * c.k, 3);
  const Data<float> before = floats(experts * c.n * c.k, 4);
  const Data<Bf16> y = in_both_orders([&](Order order) {
    Data<Bf16> out(at(total * c.n));
    run_on_host(
        GroupedGemm<Pass::forward, Bf16>{x.data(), w.data(), out.data(), offsets.data(), c.n, c.k, most, experts},
        order);
    return out;
  });
  const Data<Bf16> dx = in_both_orders([&](Order order) {
    Data<Bf16> out(at(total * c.k));
    run_on_host(
        GroupedGemm<Pass::dgrad, Bf16>{dy.data(), w.data(), out.data(), offsets.data(), c.n, c.k, most, experts},
        order);
    return out;
  });
  const Data<float> dw = in_both_orders([&](Order order) {
    Data<float> out = before;
    run_on_host(
        GroupedGemm<Pass::wgrad, float>{dy.data(), x.data(), out.data(), offsets.data(), c.n, c.k, most, experts},
        order);
    return out;
  });
  for (int e = 0; e < experts; ++e) {
    const std::int64_t first = offsets[at(e)], end = offsets[at(e + 1)], base = e * c.n * c.k;
    for (std::int64_t r = first; r < end; ++r) {
      for (std::int64_t j = 0; j < c.n; ++j) {
        double sum = 0;
        for (std::int64_t l = 0; l < c.k; ++l)
          sum += static_cast<double>(to_float(x[at(r * c.k + l)])) * to_float(w[at(base + j * c.k + l)]);
        REQUIRE(error(to_float(y[at(r * c.n + j)]), sum, std::abs(sum) + 1e-3) < kBf16 + kFloat);
      }
      for (std::int64_t l = 0; l < c.k; ++l) {
        double sum = 0;
        for (std::int64_t j = 0; j < c.n; ++j)
          sum += static_cast<double>(to_float(dy[at(r * c.n + j)])) * to_float(w[at(base + j * c.k + l)]);
        REQUIRE(error(to_float(dx[at(r * c.k + l)]), sum, std::abs(sum) + 1e-3) < kBf16 + kFloat);
      }
    }
    for (std::int64_t j = 0; j < c.n; ++j)
      for (std::int64_t l = 0; l < c.k; ++l) {
        double sum = before[at(base + j * c.k + l)];
        for (std::int64_t r = first; r < end; ++r)
          sum += static_cast<double>(to_float(dy[at(r * c.n + j)])) * to_float(x[at(r * c.k + l)]);
        // In fp32: an expert without rows keeps its bits.
        if (first == end) REQUIRE(dw[at(base + j * c.k + l)] == before[at(base + j * c.k + l)]);
        REQUIRE(error(dw[at(base + j * c.k + l)], sum, static_cast<double>(end - first) + 1) < kFloat);
      }
  }
}
}  // namespace

TEST_CASE("grouped products equal double precision in the three passes, on both sides of a tile") {
  check({{5}, 16, 16});
  check({{15, 16, 17, 1}, 15, 17});
  check({{33, 0, 2}, 17, 33});
  check({{0, 40}, 31, 8});
}

TEST_CASE("experts without rows are left, the first, the last and all of them") {
  check({{0, 3, 0}, 4, 5});
  check({{0, 0}, 4, 5});
}

TEST_CASE("a weight gradient over chunks of rows is that over all rows, to fp32") {
  const std::int64_t rows = 48, n = 20, k = 24;
  const Data<Bf16> x = bf16s(rows * k, 1), dy = bf16s(rows * n, 2);
  Data<float> whole(at(n * k)), chunks(at(n * k));
  const Data<std::int64_t> all{0, rows};
  run_on_host(GroupedGemm<Pass::wgrad, float>{dy.data(), x.data(), whole.data(), all.data(), n, k, rows, 1});
  for (const std::int64_t first : {0, 16, 32}) {
    const Data<std::int64_t> part{0, 16};
    run_on_host(GroupedGemm<Pass::wgrad, float>{dy.data() + first * n, x.data() + first * k, chunks.data(), part.data(),
                                                n, k, 16, 1});
  }
  for (std::int64_t i = 0; i < n * k; ++i) REQUIRE(error(chunks[at(i)], whole[at(i)], rows) < kFloat);
}

}  // namespace moeplan::kernels
