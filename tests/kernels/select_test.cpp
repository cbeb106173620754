#include "kernels/select.h"

#include <algorithm>

#include "kernels/permute.h"
#include "kernels/retained.h"
#include "maps_support.h"
#include "support.h"

namespace moeplan::kernels {
namespace {
using namespace testing;

Data<std::int64_t> offsets_of(const std::vector<std::int64_t>& counts) {
  Data<std::int64_t> offsets{0};
  for (const std::int64_t count : counts) offsets.push_back(offsets.back() + count);
  return offsets;
}

// The same by a stable sort: the highest scores of a segment, of equal ones the first.
Data<std::int64_t> expected_rows(const Data<float>& scores, const Data<std::int64_t>& offsets,
                                 const Data<std::int64_t>& retained) {
  Data<std::int64_t> result(scores.size(), -1);
  for (std::size_t e = 0; e + 1 < offsets.size(); ++e) {
    std::vector<std::int64_t> order;
    for (std::int64_t r = offsets[e]; r < offsets[e + 1]; ++r) order.push_back(r);
    std::stable_sort(order.begin(), order.end(),
                     [&](std::int64_t a, std::int64_t b) { return scores[at(a)] > scores[at(b)]; });
    order.resize(at(retained[e + 1] - retained[e]));
    std::sort(order.begin(), order.end());
    for (std::size_t i = 0; i < order.size(); ++i) result[at(order[i])] = retained[e] + static_cast<std::int64_t>(i);
  }
  return result;
}

void check(const Data<float>& scores, const std::vector<std::int64_t>& counts,
           const std::vector<std::int64_t>& quotas) {
  const Data<std::int64_t> offsets = offsets_of(counts), retained = offsets_of(quotas);
  REQUIRE(offsets.back() == static_cast<std::int64_t>(scores.size()));
  const Data<std::int64_t> result = in_both_orders([&](Order order) {
    Data<std::int64_t> out(scores.size(), -9);
    run_on_host(SelectRows{scores.data(), offsets.data(), retained.data(), out.data(), static_cast<int>(counts.size())},
                order);
    return out;
  });
  CHECK(result == expected_rows(scores, offsets, retained));
}

Data<float> scores_of(std::int64_t count, float step) {
  Data<float> scores = floats(count, 31);
  for (float& value : scores) {
    value = std::abs(value) * 100;
    if (step > 0) value = std::floor(value / step) * step;  // many are equal
  }
  return scores;
}
}  // namespace

TEST_CASE("a segment keeps its highest scores, on both sides of a block of threads and at both ends of the quota") {
  for (const std::int64_t rows : {1, 2, 255, 256, 257, 700})
    for (const std::int64_t quota : {std::int64_t{0}, std::int64_t{1}, rows / 2, rows - 1, rows})
      for (const float step : {0.0F, 20.0F, 1000.0F})  // all different, five values, all 0
        check(scores_of(rows, step), {rows}, {quota});
}

TEST_CASE("segments are selected apart from each other, empty ones too") {
  check(scores_of(600, 0), {0, 300, 1, 0, 299, 0}, {0, 100, 1, 0, 0, 0});
  check(scores_of(600, 10), {200, 200, 200}, {200, 0, 7});
}

TEST_CASE("scores that differ in the last bit alone, in the first byte alone, and zero are told apart") {
  const float one = 1.0F, more = std::nextafter(one, 2.0F);
  check({one, more, one, more}, {4}, {2});
  check({1e-30F, 1e30F, 0.0F, 1.0F}, {4}, {3});
  check({0.0F, 0.0F, 1e-45F}, {3}, {1});  // the smallest fp32 above 0
}

TEST_CASE("a pair's score is its weight times the lengths of gradient and input") {
  constexpr int kTopK = 2;
  for (const std::int64_t hidden : {8, 2040, 2048, 2056}) {
    const std::int64_t tokens = 5;
    const Data<Bf16> x = bf16s(tokens * hidden, 1), dy = bf16s(tokens * hidden, 2, 0.01F);
    Data<float> weights = floats(tokens * kTopK, 3);
    for (float& w : weights) w = std::abs(w);
    Data<std::int32_t> chosen = distinct_choices(tokens, 3, kTopK, 4);
    chosen[3] = -1;
    const Maps m = make_maps(chosen, 3);
    const Data<float> scores = in_both_orders([&](Order order) {
      Data<float> out(at(m.total()));
      run_on_host(
          ScorePairs{packs(x), packs(dy), weights.data(), m.row_of_pair.data(), out.data(), tokens, hidden, kTopK},
          order);
      return out;
    });
    for (std::int64_t token = 0; token < tokens; ++token) {
      double xx = 0, yy = 0;
      for (std::int64_t i = 0; i < hidden; ++i) {
        xx += std::pow(to_float(x[at(token * hidden + i)]), 2);
        yy += std::pow(to_float(dy[at(token * hidden + i)]), 2);
      }
      for (int k = 0; k < kTopK; ++k) {
        const std::int64_t row = m.row_of_pair[at(token * kTopK + k)];
        if (row < 0) continue;
        const double expected = weights[at(token * kTopK + k)] * std::sqrt(xx * yy);
        REQUIRE(error(scores[at(row)], expected, expected) < 4 * kFloat);
      }
    }
  }
}

TEST_CASE("retained rows are gathered, compacted and summed back as their pairs say") {
  constexpr int kTopK = 3, kExperts = 4;
  for (const std::int64_t hidden : {8, 2040, 2056}) {
    const std::int64_t tokens = 90;  // 270 pairs: more than a block of threads
    const Maps m = make_maps(distinct_choices(tokens, kExperts, kTopK, 6), kExperts);
    std::vector<std::int64_t> quotas;
    for (int e = 0; e < kExperts; ++e) quotas.push_back(m.rows[at(e)] / 2);
    const Data<std::int64_t> retained = offsets_of(quotas);
    const Data<float> scores = scores_of(m.total(), 0), weights = floats(tokens * kTopK, 7);
    const Data<std::int64_t> new_row = expected_rows(scores, m.offsets, retained);
    const std::int64_t kept = retained.back(), pairs = tokens * kTopK;
    const Data<Bf16> x = bf16s(tokens * hidden, 8), dy = bf16s(tokens * hidden, 9);

    Data<float> row_weights(at(kept));
    Data<std::int32_t> with_dropped = in_both_orders([&](Order order) {
      Data<std::int32_t> out(at(pairs));
      run_on_host(
          MapRetained{m.row_of_pair.data(), new_row.data(), weights.data(), out.data(), row_weights.data(), pairs},
          order);
      return out;
    });
    Data<std::int64_t> slots(at(kept));
    const Data<Bf16> records = in_both_orders([&](Order order) {
      Data<Bf16> out(at(kept * 2 * hidden));
      run_on_host(
          GatherRetained{packs(x), packs(dy), with_dropped.data(), packs(out), slots.data(), tokens, hidden, kTopK},
          order);
      return out;
    });
    for (std::int64_t r = 0; r < kept; ++r) CHECK(slots[at(r)] == r);
    std::reverse(slots.begin(), slots.end());  // as records of other ranks would come, in another order
    Data<Bf16> gradients(at(kept * hidden));
    const Data<Bf16> inputs = in_both_orders([&](Order order) {
      Data<Bf16> out(at(kept * hidden));
      run_on_host(Compact{packs(records), slots.data(), packs(out), packs(gradients), kept, hidden}, order);
      return out;
    });
    const Data<Bf16> sums = in_both_orders([&](Order order) {
      Data<Bf16> out(at(tokens * hidden));
      run_on_host(
          Unpermute<std::int32_t>{packs(inputs), nullptr, with_dropped.data(), packs(out), tokens, hidden, kTopK},
          order);
      return out;
    });
    for (std::int64_t pair = 0; pair < pairs; ++pair) {
      const std::int64_t token = pair / kTopK, row = new_row[at(m.row_of_pair[at(pair)])];
      REQUIRE(with_dropped[at(pair)] == row);
      if (row < 0) continue;
      REQUIRE(row_weights[at(row)] == weights[at(pair)]);
      for (std::int64_t i = 0; i < hidden; ++i) {
        REQUIRE(inputs[at((kept - 1 - row) * hidden + i)].bits == x[at(token * hidden + i)].bits);
        REQUIRE(gradients[at((kept - 1 - row) * hidden + i)].bits == dy[at(token * hidden + i)].bits);
      }
    }
    for (std::int64_t token = 0; token < tokens; ++token)
      for (std::int64_t i = 0; i < hidden; ++i) {
        double sum = 0, size = 1e-9;
        for (int k = 0; k < kTopK; ++k) {
          const std::int32_t row = with_dropped[at(token * kTopK + k)];
          if (row < 0) continue;
          const double value = to_float(inputs[at(row * hidden + i)]);
          sum += value;
          size += std::abs(value);
        }
        REQUIRE(error(to_float(sums[at(token * hidden + i)]), sum, size) < kBf16);
      }
  }
}

TEST_CASE("a pair without a row has no retained row") {
  const Data<std::int64_t> row_of_pair{-1, 0}, new_row{0};
  const Data<float> weights{1, 2};
  Data<std::int32_t> result(2, 7);
  Data<float> row_weights(1);
  run_on_host(MapRetained{row_of_pair.data(), new_row.data(), weights.data(), result.data(), row_weights.data(), 2});
  CHECK(result == Data<std::int32_t>{-1, 0});
  CHECK(row_weights[0] == 2);
}

}  // namespace moeplan::kernels
