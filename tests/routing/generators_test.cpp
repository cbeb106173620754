#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <thread>

#include "routing/loads.h"
#include "routing/shares.h"
#include "routing/statistics.h"
#include "support.h"

using namespace moeplan::routing;
using namespace moeplan::routing::test;

namespace {

// Mean over `draws` layers of the largest of `ranks` blocks of experts over the mean.
double mean_skew(std::int64_t experts, double sigma, std::int64_t ranks, std::int64_t draws) {
  const auto loads = make_lognormal({4096, 1, 1, 1, draws, experts, 8}, sigma, 17);
  double sum = 0;
  for (std::int64_t layer = 0; layer < draws; ++layer) {
    sum += rank_max_over_mean(counts_of(*loads, {0, 0, 0, 0, 4096}, layer), ranks);
  }
  return sum / static_cast<double>(draws);
}

}  // namespace

TEST_CASE("balanced counts differ by at most one, and groups of experts too") {
  const auto loads = make_balanced({10, 1, 2, 2, 3, 8, 2});  // 20 copies over 8 experts: 2.5 each
  const std::vector<std::int64_t> counts = counts_of(*loads, {0, 0, 0, 0, 10}, 0);
  CHECK(counts == std::vector<std::int64_t>{2, 3, 2, 3, 2, 3, 2, 3});
  CHECK(counts_of(*loads, {4, 1, 1, 0, 10}, 2) == counts);
  CHECK(rank_max_over_mean(counts, 4) == 1.0);
  CHECK(loads->describe().source == "balanced");
  CHECK(loads->describe().repeats == 0.0);
  CHECK_FALSE(loads->has_weights());
}

TEST_CASE("balanced slices add up and every token has distinct experts, with several samples a microbatch") {
  const auto loads = make_balanced({24, 3, 1, 1, 1, 7, 4});
  CHECK(slices_add_up(*loads, {0, 0, 0, 0, 24}, 0, {1, 5, 6, 23}));
  CHECK(slices_add_up(*loads, {0, 0, 0, 3, 20}, 0, {11}));
  std::vector<Pair> pairs;
  loads->pairs({0, 0, 0, 2, 3}, 0, pairs);  // one position of three samples
  REQUIRE(pairs.size() == 12);
  CHECK(pairs.back().token == 2);
  CHECK(pairs.back().weight == 0.25f);
}

TEST_CASE("all experts chosen by every token leave nothing to balance") {
  const auto loads = make_lognormal({6, 1, 1, 1, 1, 3, 3}, 5.0, 1);
  CHECK(counts_of(*loads, {0, 0, 0, 0, 6}, 0) == std::vector<std::int64_t>{6, 6, 6});
}

TEST_CASE("log-normal shares have the expected largest expert for each sigma, within a tenth") {
  CHECK(std::abs(mean_skew(64, 0.3, 64, 400) / 2.0 - 1.0) < 0.10);
  CHECK(std::abs(mean_skew(64, 0.5, 64, 400) / 3.0 - 1.0) < 0.10);
  CHECK(std::abs(mean_skew(64, 1.0, 64, 400) / 6.1 - 1.0) < 0.10);
  CHECK(std::abs(mean_skew(256, 0.2, 256, 400) / 1.7 - 1.0) < 0.10);
  CHECK(std::abs(mean_skew(256, 0.5, 256, 400) / 3.7 - 1.0) < 0.10);
}

TEST_CASE("log-normal shares have the expected largest rank for each sigma, within a twentieth") {
  const double small[] = {1.06, 1.10, 1.17}, large[] = {1.15, 1.27, 1.47};
  for (int i = 0; i < 3; ++i) {
    const std::int64_t ranks = 8 << i;
    CHECK(std::abs(mean_skew(256, 0.2, ranks, 400) / small[i] - 1.0) < 0.05);
    CHECK(std::abs(mean_skew(256, 0.5, ranks, 400) / large[i] - 1.0) < 0.05);
  }
}

TEST_CASE("no sigma gives an expert more than one copy of a token, and extreme ones reach that bound") {
  for (const double sigma : {0.0, 2.0, 5.0, 50.0, 1e6, 1e300}) {
    const auto loads = make_lognormal({512, 1, 1, 1, 5, 64, 8}, sigma, 3);
    for (std::int64_t layer = 0; layer < 5; ++layer) {
      const std::vector<std::int64_t> counts = counts_of(*loads, {0, 0, 0, 0, 512}, layer);
      CHECK(sum_of(counts) == 512 * 8);
      const std::int64_t largest = *std::max_element(counts.begin(), counts.end());
      CHECK(largest <= 512);
      if (sigma == 0.0) CHECK(largest == 64);  // 512 * 8 / 64
      if (sigma >= 5.0) CHECK(largest == 512);
    }
  }
}

TEST_CASE("inclusion probabilities sum to top-k, keep the order of the draws and are capped at one") {
  const std::vector<double> mild = lognormal_inclusion(64, 8, 1.0, 5, 0),
                            strong = lognormal_inclusion(64, 8, 3.0, 5, 0);
  double sum_mild = 0, sum_strong = 0;
  for (std::size_t e = 0; e < 64; ++e) {
    sum_mild += mild[e];
    sum_strong += strong[e];
    CHECK(strong[e] <= 1.0);
    for (std::size_t other = 0; other < 64; ++other) {
      if (mild[e] < mild[other]) CHECK(strong[e] <= strong[other]);
    }
  }
  CHECK(sum_mild == doctest::Approx(8.0).epsilon(1e-12));
  CHECK(sum_strong == doctest::Approx(8.0).epsilon(1e-12));
  CHECK(std::count(strong.begin(), strong.end(), 1.0) >= 1);
  // Below the cap the log-ratio of two experts is proportional to sigma: re-standardised draws have deviation 1.
  const std::vector<double> half = lognormal_inclusion(64, 8, 0.5, 5, 0);
  double mean = 0, squares = 0;
  for (const double p : half) mean += std::log(p) / 64;
  for (const double p : half) squares += (std::log(p) - mean) * (std::log(p) - mean) / 64;
  CHECK(std::sqrt(squares) == doctest::Approx(0.5).epsilon(1e-9));
}

TEST_CASE("rounding to counts gives the missing copies to the largest remainders") {
  // 10 tokens, k = 2: exact 10, 5.45, 2.27, 2.28; floors sum to 19, so one more goes to the second (.45).
  CHECK(counts_of_inclusion({1.0, 0.545, 0.227, 0.228}, 10, 2) == std::vector<std::int64_t>{10, 6, 2, 2});
}

TEST_CASE("log-normal shares depend on seed and layer, not on iteration, microbatch or replica") {
  const StepShape shape{64, 2, 2, 2, 2, 16, 2};
  const auto one = make_lognormal(shape, 0.8, 1), again = make_lognormal(shape, 0.8, 1),
             other = make_lognormal(shape, 0.8, 2);
  const std::vector<std::int64_t> counts = counts_of(*one, {0, 0, 0, 0, 64}, 0);
  CHECK(counts_of(*again, {9, 1, 1, 0, 64}, 0) == counts);
  CHECK(counts_of(*other, {0, 0, 0, 0, 64}, 0) != counts);
  CHECK(counts_of(*one, {0, 0, 0, 0, 64}, 1) != counts);
  CHECK(slices_add_up(*one, {0, 0, 0, 0, 64}, 1, {7, 8, 32, 63}));
  CHECK(one->describe().source == "log-normal sigma 0.8, seed 1");
}

TEST_CASE("log-normal draws: iterations take them in turn, the first is that of a single one") {
  const StepShape shape{64, 2, 2, 2, 2, 16, 2};
  const auto one = make_lognormal(shape, 0.8, 1), three = make_lognormal(shape, 0.8, 1, 3);
  const auto of = [](const LoadSource& loads, std::int64_t iteration, std::int64_t layer) {
    return counts_of(loads, {iteration, 1, 1, 0, 64}, layer);
  };
  for (const std::int64_t layer : {0, 1}) {
    CHECK(of(*three, 0, layer) == of(*one, 0, layer));
    CHECK(of(*three, 3, layer) == of(*one, 0, layer));
    CHECK(of(*three, 1, layer) != of(*three, 0, layer));
    CHECK(of(*three, 2, layer) != of(*three, 1, layer));
  }
  CHECK(of(*three, 1, 0) != of(*three, 0, 1));  // a draw's first layer is not the layer behind the draw before
  CHECK(three->same_in_iteration());
}

TEST_CASE("threads that ask for the same new slices at once get what one thread gets") {
  const StepShape shape{500, 1, 1, 1, 6, 32, 4};
  const auto work = [](const LoadSource& loads) {
    std::vector<std::int64_t> all;
    for (std::int64_t layer = 0; layer < 6; ++layer) {
      for (std::int64_t begin = 0; begin < 500; begin += 25) {
        for (const std::int64_t count : counts_of(loads, {0, 0, 0, begin, begin + 25}, layer)) all.push_back(count);
      }
    }
    return all;
  };
  const std::vector<std::int64_t> alone = work(*make_lognormal(shape, 1.0, 1));
  const auto shared = make_lognormal(shape, 1.0, 1);
  std::vector<std::vector<std::int64_t>> results(4);
  std::vector<std::thread> threads;
  for (auto& result : results) threads.emplace_back([&] { result = work(*shared); });
  for (std::thread& thread : threads) thread.join();
  for (const auto& result : results) CHECK(result == alone);
}

TEST_CASE("summed over layers the ranks look far more even than in single layers") {
  const auto loads = make_lognormal({4096, 1, 1, 1, 26, 64, 8}, 0.5, 1);
  std::vector<std::int64_t> sum(64, 0);
  double single = 0;
  for (std::int64_t layer = 0; layer < 26; ++layer) {
    single += rank_max_over_mean(counts_of(*loads, {0, 0, 0, 0, 4096}, layer), 8) / 26;
    loads->add_counts({0, 0, 0, 0, 4096}, layer, sum);
  }
  CHECK(rank_max_over_mean(sum, 8) - 1.0 < 0.5 * (single - 1.0));
}

TEST_CASE("a shape or sigma that cannot be is refused with its key") {
  CHECK(contains(error_of([] {
                   make_balanced({8, 1, 1, 1, 1, 4, 5});
                 }),
                 "top_k: a token cannot choose 5 of 4 experts"));
  CHECK(error_of([] { make_balanced({8, 1, 1, 1, 1, 4, 4}); }) == "no error");
  CHECK(contains(error_of([] { make_balanced({0, 1, 1, 1, 1, 4, 2}); }), "seq_length: expected 1 to"));
  CHECK(contains(error_of([] { make_balanced({65536, 32768, 1, 1, 1, 4, 2}); }), "micro_batch_size: a microbatch of"));
  CHECK(contains(error_of([] { make_lognormal({8, 1, 1, 1, 1, 4, 2}, -0.1, 1); }), "sigma: expected a finite number"));
  CHECK(contains(error_of([] { make_lognormal({8, 1, 1, 1, 1, 4, 2}, std::nan(""), 1); }), "sigma"));
}
