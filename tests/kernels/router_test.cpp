#include "kernels/router.h"

#include <algorithm>

#include "support.h"

namespace moeplan::kernels {
namespace {
using namespace testing;

struct Routed {
  Data<float> probabilities, weights;
  Data<std::uint8_t> map;
  Data<std::int32_t> chosen;
};

Routed route(const Data<float>& logits, std::int64_t tokens, int experts, int top_k, Order order = Order::forward) {
  Routed r{Data<float>(at(tokens * experts)), Data<float>(at(tokens * top_k)), Data<std::uint8_t>(at(tokens * experts)),
           Data<std::int32_t>(at(tokens * top_k))};
  run_on_host(RouterTopK{logits.data(), r.probabilities.data(), r.map.data(), r.chosen.data(), r.weights.data(), tokens,
                         experts, top_k},
              order);
  return r;
}

// Softmax and top-k of one token in double precision.
std::vector<double> softmax(const float* logits, int experts) {
  double largest = logits[0], sum = 0;
  for (int e = 0; e < experts; ++e) largest = std::max<double>(largest, logits[e]);
  std::vector<double> p(at(experts));
  for (int e = 0; e < experts; ++e) sum += p[at(e)] = std::exp(logits[e] - largest);
  for (double& value : p) value /= sum;
  return p;
}
}  // namespace

TEST_CASE("router probabilities, choices and weights equal those in double precision, whatever the number of experts") {
  constexpr std::int64_t kTokens = 17;
  // Fewer experts than threads, just as many, one more, and several rounds of them.
  for (const int experts : {1, 7, 31, 32, 33, 128, 257}) {
    const int top_k = std::min(experts, 8);
    const Data<float> logits = floats(kTokens * experts, 5, 6);
    const Routed r = route(logits, kTokens, experts, top_k);
    const Routed reverse = route(logits, kTokens, experts, top_k, Order::reverse);
    CHECK(same_bits(r.probabilities, reverse.probabilities));
    CHECK(same_bits(r.weights, reverse.weights));
    CHECK(same_bits(r.map, reverse.map));
    CHECK(same_bits(r.chosen, reverse.chosen));
    for (std::int64_t token = 0; token < kTokens; ++token) {
      const std::vector<double> p = softmax(logits.data() + token * experts, experts);
      std::vector<int> order(at(experts));
      for (int e = 0; e < experts; ++e) {
        order[at(e)] = e;
        REQUIRE(error(r.probabilities[at(token * experts + e)], p[at(e)], 1) < kFloat);
      }
      std::stable_sort(order.begin(), order.end(), [&](int a, int b) { return p[at(a)] > p[at(b)]; });
      std::vector<int> expected_map(at(experts), 0);
      for (int k = 0; k < top_k; ++k) {
        REQUIRE(r.chosen[at(token * top_k + k)] == order[at(k)]);
        REQUIRE(r.weights[at(token * top_k + k)] == r.probabilities[at(token * experts + order[at(k)])]);
        expected_map[at(order[at(k)])] = 1;
      }
      for (int e = 0; e < experts; ++e) REQUIRE(r.map[at(token * experts + e)] == expected_map[at(e)]);
    }
  }
}

TEST_CASE("of equal logits the experts of the lower numbers are chosen") {
  const Data<float> logits(40, 2.5F);
  const Routed r = route(logits, 1, 40, 3);
  CHECK(r.chosen == Data<std::int32_t>{0, 1, 2});
  for (const float weight : r.weights) CHECK(weight == doctest::Approx(1.0 / 40));
}

TEST_CASE("large logits do not overflow, and their far ones have no weight") {
  const Routed r = route({3e38F, -3e38F, 0}, 1, 3, 2);
  CHECK(r.probabilities == Data<float>{1, 0, 0});
  CHECK(r.chosen == Data<std::int32_t>{0, 1});  // equal probabilities of 0: the lower number
}

TEST_CASE("the router's gradient equals the derivative of the weighted sum of chosen probabilities") {
  constexpr std::int64_t kTokens = 9;
  for (const int experts : {1, 8, 32, 33, 100}) {
    const int top_k = std::min(experts, 6);
    const Data<float> logits = floats(kTokens * experts, 11, 3), gradient = floats(kTokens * top_k, 12);
    const Routed r = route(logits, kTokens, experts, top_k);
    const Data<Bf16> result = in_both_orders([&](Order order) {
      Data<Bf16> out(at(kTokens * experts));
      run_on_host(
          RouterBackward{r.probabilities.data(), r.chosen.data(), gradient.data(), out.data(), kTokens, experts, top_k},
          order);
      return out;
    });
    for (std::int64_t token = 0; token < kTokens; ++token) {
      // L = sum_j g_j p_j over the chosen; dp_j/dlogit_e = p_j ([j = e] - p_e), so dL/dlogit_e = p_e (g_e - L).
      std::vector<float> mine(logits.begin() + token * experts, logits.begin() + (token + 1) * experts);
      const std::vector<double> p = softmax(mine.data(), experts);
      double mean = 0;
      for (int k = 0; k < top_k; ++k) mean += gradient[at(token * top_k + k)] * p[at(r.chosen[at(token * top_k + k)])];
      for (int e = 0; e < experts; ++e) {
        double g = 0;
        for (int k = 0; k < top_k; ++k)
          if (r.chosen[at(token * top_k + k)] == e) g = gradient[at(token * top_k + k)];
        const double expected = p[at(e)] * (g - mean);
        REQUIRE(error(to_float(result[at(token * experts + e)]), expected, std::abs(expected) + 1e-5) < kBf16);
      }
    }
  }
}

}  // namespace moeplan::kernels
