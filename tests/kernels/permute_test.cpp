#include "kernels/permute.h"

#include "maps_support.h"
#include "support.h"

namespace moeplan::kernels {
namespace {
using namespace testing;
constexpr int kTopK = 3, kExperts = 5;
}  // namespace

TEST_CASE("permuting copies tokens and weights to the rows of their pairs, unpermuting sums them with the weights") {
  // 2040 values are 255 packs, one fewer than threads; 2056 one more.
  for (const std::int64_t hidden : {8, 2040, 2048, 2056}) {
    const std::int64_t tokens = 7;
    Data<std::int32_t> chosen = distinct_choices(tokens, kExperts, kTopK, 1);
    chosen[4] = -1;  // a pair without a row
    const Maps m = make_maps(chosen, kExperts);
    CHECK(m.total() == tokens * kTopK - 1);
    const Data<Bf16> x = bf16s(tokens * hidden, 2);
    const Data<float> weights = floats(tokens * kTopK, 3);
    Data<float> row_weights(at(m.total()));
    const Data<Bf16> rows = in_both_orders([&](Order order) {
      Data<Bf16> out(at(m.total() * hidden));
      run_on_host(Permute{packs(x), weights.data(), m.row_of_pair.data(), packs(out), row_weights.data(), tokens,
                          hidden, kTopK},
                  order);
      return out;
    });
    const Data<Bf16> back = in_both_orders([&](Order order) {
      Data<Bf16> out(at(tokens * hidden));
      run_on_host(
          Unpermute<std::int64_t>{packs(rows), weights.data(), m.row_of_pair.data(), packs(out), tokens, hidden, kTopK},
          order);
      return out;
    });
    Data<Bf16> plain(at(tokens * hidden)), alone(at(m.total() * hidden));
    run_on_host(
        Unpermute<std::int64_t>{packs(rows), nullptr, m.row_of_pair.data(), packs(plain), tokens, hidden, kTopK});
    run_on_host(Permute{packs(x), nullptr, m.row_of_pair.data(), packs(alone), nullptr, tokens, hidden, kTopK});
    CHECK(same_bits(rows, alone));
    for (std::int64_t token = 0; token < tokens; ++token)
      for (std::int64_t i = 0; i < hidden; ++i) {
        double weighted = 0, size = 0;
        int count = 0;
        const double value = to_float(x[at(token * hidden + i)]);
        for (int k = 0; k < kTopK; ++k) {
          const std::int64_t row = m.row_of_pair[at(token * kTopK + k)];
          if (row < 0) continue;
          const float weight = weights[at(token * kTopK + k)];
          REQUIRE(rows[at(row * hidden + i)].bits == x[at(token * hidden + i)].bits);
          REQUIRE(row_weights[at(row)] == weight);
          weighted += weight * value;
          size += std::abs(weight * value);
          ++count;
        }
        REQUIRE(error(to_float(back[at(token * hidden + i)]), weighted, size + 1e-9) < kBf16 + kFloat);
        REQUIRE(error(to_float(plain[at(token * hidden + i)]), count * value, std::abs(count * value) + 1e-9) < kBf16);
      }
  }
}

TEST_CASE("a token none of whose pairs has a row becomes zero") {
  const Data<std::int64_t> rows(2, -1);
  const Data<Bf16> nothing;
  Data<Bf16> out = bf16s(8, 1);
  run_on_host(Unpermute<std::int64_t>{packs(nothing), nullptr, rows.data(), packs(out), 1, 8, 2});
  for (const Bf16 value : out) CHECK(value.bits == 0);
}

TEST_CASE("values of rows come back to their pairs, on both sides of a block of threads") {
  for (const std::int64_t pairs : {1, 255, 256, 257}) {
    Data<std::int64_t> row_of_pair(at(pairs));
    Data<std::int32_t> narrow;
    for (std::int64_t p = 0; p < pairs; ++p) row_of_pair[at(p)] = p == 0 ? -1 : pairs - 1 - p;
    for (const std::int64_t row : row_of_pair) narrow.push_back(static_cast<std::int32_t>(row));
    const Data<float> values = floats(pairs, 9);
    const Data<float> result = in_both_orders([&](Order order) {
      Data<float> out(at(pairs), 7);
      run_on_host(GatherPairs<std::int64_t>{values.data(), row_of_pair.data(), out.data(), pairs}, order);
      return out;
    });
    Data<float> same(at(pairs), 7);
    run_on_host(GatherPairs<std::int32_t>{values.data(), narrow.data(), same.data(), pairs});
    CHECK(same_bits(same, result));
    CHECK(result[0] == 0);
    for (std::int64_t p = 1; p < pairs; ++p) REQUIRE(result[at(p)] == values[at(pairs - 1 - p)]);
  }
}

}  // namespace moeplan::kernels
