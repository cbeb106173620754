#include <doctest/doctest.h>

#include <map>
#include <thread>

#include "routing/line_packing.h"
#include "routing/loads.h"
#include "support.h"

using namespace moeplan::routing;
using namespace moeplan::routing::test;

namespace {

// Token t of 12 in lines of 3, 4 and 5 chooses the experts t and t + 12 in the first layer, in the second 23 - those.
std::shared_ptr<TokenTrace> small_trace(bool weights = false) {
  auto trace = std::make_shared<TokenTrace>();
  trace->name = "small";
  trace->experts = 24;
  trace->top_k = 2;
  trace->layer_ids = {1, 2};
  trace->line_tokens = {3, 4, 5};
  trace->experts_of.resize(2);
  if (weights) trace->weights_of.resize(2);
  for (std::uint16_t t = 0; t < 12; ++t) {
    for (const std::uint16_t expert : {t, static_cast<std::uint16_t>(t + 12)}) {
      trace->experts_of[0].push_back(expert);
      trace->experts_of[1].push_back(static_cast<std::uint16_t>(23 - expert));
      if (!weights) continue;
      trace->weights_of[0].push_back(static_cast<float>(expert) / 100);
      trace->weights_of[1].push_back(static_cast<float>(expert) / 200);
    }
  }
  return trace;
}

// Tokens of the trace in the order of the slice, read back from the first layer's experts.
std::vector<int> tokens_read(const LoadSource& loads, const TokenSlice& slice) {
  std::vector<Pair> pairs;
  loads.pairs(slice, 0, pairs);
  std::vector<int> tokens;
  for (const Pair& pair : pairs) {
    if (pair.expert < 12) tokens.push_back(pair.expert);
  }
  return tokens;
}

}  // namespace

TEST_CASE("samples are whole lines in their order, from the start again, cut to the length") {
  // Length 6. Sample 0: lines 0 and 1 (7 tokens, cut). Sample 1: lines 2 and 0 (8). Sample 2: lines 1 and 2 (9).
  // Sample 3 starts at line 0 again.
  const auto loads = make_token_loads(small_trace(), {6, 1, 2, 2, 2, 24, 2}, Resample::lines, 1);
  CHECK(tokens_read(*loads, {0, 0, 0, 0, 6}) == std::vector<int>{0, 1, 2, 3, 4, 5});
  CHECK(tokens_read(*loads, {0, 0, 1, 0, 6}) == std::vector<int>{7, 8, 9, 10, 11, 0});
  CHECK(tokens_read(*loads, {0, 1, 0, 0, 6}) == std::vector<int>{3, 4, 5, 6, 7, 8});
  CHECK(tokens_read(*loads, {0, 1, 1, 0, 6}) == std::vector<int>{0, 1, 2, 3, 4, 5});
  CHECK(tokens_read(*loads, {1, 0, 0, 0, 6}) == std::vector<int>{7, 8, 9, 10, 11, 0});  // sample 4
  CHECK(tokens_read(*loads, {1, 0, 0, 4, 6}) == std::vector<int>{11, 0});
}

TEST_CASE("the samples of a microbatch are interleaved, sequence position first") {
  const auto loads = make_token_loads(small_trace(), {6, 2, 1, 2, 2, 24, 2}, Resample::lines, 1);
  CHECK(tokens_read(*loads, {0, 0, 0, 0, 2}) == std::vector<int>{0, 7, 1, 8});
  CHECK(tokens_read(*loads, {0, 1, 0, 5, 6}) == std::vector<int>{8, 5});  // samples 2 and 3
  CHECK(slices_add_up(*loads, {0, 1, 0, 0, 6}, 1, {1, 4}));
}

TEST_CASE("a sample that ends exactly at a line end does not touch the next line") {
  const std::vector<std::int64_t> lines = {3, 4, 5};
  const LinePacking exact(lines, 7), one_more(lines, 8), one_line(lines, 3);
  CHECK(exact.first_token(1) == 7);     // line 2
  CHECK(one_more.first_token(1) == 0);  // lines 0, 1, 2 used
  CHECK(one_line.first_token(1) == 3);
  CHECK(one_line.first_token(2) == 7);
  CHECK(one_line.first_token(3) == 0);
}

TEST_CASE("samples longer than the whole trace go round it several times") {
  // Length 25 = two rounds of 12 and one token: lines 0 1 2 0 1 2 0, so sample 1 starts at line 1; from there
  // 24 + 1 again ends in line 1, so sample 2 starts at line 2.
  const LinePacking packing(std::vector<std::int64_t>{3, 4, 5}, 25);
  CHECK(packing.first_token(1) == 3);
  CHECK(packing.first_token(2) == 7);
  CHECK(packing.first_token(3) == 0);
  CHECK(packing.lines_used(2, 1000) == 14);
  const auto loads = make_token_loads(small_trace(), {25, 1, 1, 4, 2, 24, 2}, Resample::lines, 1);
  std::vector<std::int64_t> expected(24, 2);  // every token twice, token 3 (experts 3 and 15) a third time
  expected[3] = expected[15] = 3;
  CHECK(counts_of(*loads, {0, 1, 0, 0, 25}, 0) == expected);
  CHECK(slices_add_up(*loads, {0, 1, 0, 0, 25}, 0, {2, 13, 24}));
}

TEST_CASE("start lines that are met only once come before the cycle") {
  // Lines of 1, 4, 4 tokens, length 5: line 0 (1 + 4), line 2 (4 + 1), line 1 (4 + 4), line 0 again.
  const LinePacking cycle(std::vector<std::int64_t>{1, 4, 4}, 5);
  const std::int64_t first[] = {0, 5, 1, 0, 5, 1, 0};
  for (std::int64_t sample = 0; sample < 7; ++sample) CHECK(cycle.first_token(sample) == first[sample]);
  // Lines of 6, 1, 1, length 7: line 0 (6 + 1), line 2 (1 + 6), line 1 (1 + 1 + 6), and then line 1 for ever.
  const LinePacking tail(std::vector<std::int64_t>{6, 1, 1}, 7);
  const std::int64_t met[] = {0, 7, 6, 6, 6};
  for (std::int64_t sample = 0; sample < 5; ++sample) CHECK(tail.first_token(sample) == met[sample]);
}

TEST_CASE("the same token is used in every layer, with the router weights of the trace") {
  for (const Resample resample : {Resample::lines, Resample::tokens}) {
    const auto loads = make_token_loads(small_trace(true), {50, 1, 2, 2, 2, 24, 2}, resample, 4);
    CHECK(loads->has_weights());
    std::vector<Pair> first, second;
    loads->pairs({3, 1, 1, 10, 40}, 0, first);
    loads->pairs({3, 1, 1, 10, 40}, 1, second);
    REQUIRE(first.size() == 60);
    for (std::size_t i = 0; i < first.size(); ++i) {
      CHECK(second[i].expert == 23 - first[i].expert);
      CHECK(first[i].weight == static_cast<float>(first[i].expert) / 100);
      CHECK(second[i].weight == static_cast<float>(first[i].expert) / 200);
    }
  }
  std::vector<Pair> pairs;
  const auto loads = make_token_loads(small_trace(), {6, 1, 1, 1, 2, 24, 2}, Resample::lines, 1);
  CHECK_FALSE(loads->has_weights());
  loads->pairs({0, 0, 0, 0, 1}, 0, pairs);
  CHECK(pairs[0].weight == 0.5f);
}

TEST_CASE("counts of windows that cross many blocks equal the pairs, in every layer of the legal-text trace") {
  const auto trace = std::make_shared<TokenTrace>(std::get<TokenTrace>(read_trace(kLawTrace)));
  const StepShape shape{4096, 2, 2, 3, 26, 64, 6};
  for (const Resample resample : {Resample::lines, Resample::tokens}) {
    const auto loads = make_token_loads(trace, shape, resample, 1);
    for (std::int64_t layer = 0; layer < 26; layer += 5) {
      CHECK(slices_add_up(*loads, {1, 2, 1, 0, 4096}, layer, {1, 33, 64, 65, 1000, 2048, 4095}));
    }
  }
}

TEST_CASE("the trace of a quickstart step tells how often its tokens are used") {
  const auto trace = std::make_shared<TokenTrace>(std::get<TokenTrace>(read_trace(kLawTrace)));
  const auto loads = make_token_loads(trace, {4096, 1, 8, 8, 26, 64, 6}, Resample::lines, 1);
  const LoadSource::Description text = loads->describe();
  CHECK(text.source == "trace " + kLawTrace + ": 8,327 tokens in 33 lines, 26 layers");
  CHECK(text.repeats == doctest::Approx(262144.0 / 8327.0));  // 31.48
  REQUIRE(text.notes.size() == 1);
  CHECK(contains(text.notes[0], "continued by whole lines from the first again, each sample cut to 4,096 tokens"));
  CHECK(contains(text.notes[0], "uses each token 31.5 times on average"));
}

TEST_CASE("nothing repeats while a step needs no more lines than there are") {
  // Length 6: two samples use lines 0 1 and 2 0, which is one more than there are; one sample uses two.
  CHECK(make_token_loads(small_trace(), {6, 1, 1, 1, 2, 24, 2}, Resample::lines, 1)->describe().repeats == 0.0);
  CHECK(make_token_loads(small_trace(), {6, 1, 1, 2, 2, 24, 2}, Resample::lines, 1)->describe().repeats == 1.0);
  const LoadSource::Description cut =
      make_token_loads(small_trace(), {4, 1, 1, 1, 2, 24, 2}, Resample::lines, 1)->describe();
  REQUIRE(cut.notes.size() == 2);
  CHECK(cut.notes[1] == "tokens beyond 4 of 1 long line are not used");
}

TEST_CASE("independent draws depend on the seed and the place, use all tokens, and are the same from every thread") {
  const StepShape shape{600, 1, 2, 2, 2, 24, 2};
  const auto loads = make_token_loads(small_trace(), shape, Resample::tokens, 7);
  const std::vector<int> tokens = tokens_read(*loads, {0, 0, 0, 0, 600});
  std::map<int, int> uses;
  for (const int token : tokens) ++uses[token];
  CHECK(uses.size() == 12);
  for (const auto& [token, count] : uses) CHECK(std::abs(count - 50) < 35);  // 600 / 12, deviation 6.8
  CHECK(tokens_read(*loads, {0, 0, 1, 0, 600}) != tokens);
  CHECK(tokens_read(*loads, {1, 0, 0, 0, 600}) != tokens);
  CHECK(tokens_read(*make_token_loads(small_trace(), shape, Resample::tokens, 8), {0, 0, 0, 0, 600}) != tokens);
  const auto fresh = make_token_loads(small_trace(), shape, Resample::tokens, 7);
  std::vector<std::vector<int>> seen(4);
  std::vector<std::thread> threads;
  for (std::vector<int>& place : seen) {
    threads.emplace_back([&fresh, &place] { place = tokens_read(*fresh, {0, 0, 0, 0, 600}); });
  }
  for (std::thread& thread : threads) thread.join();
  for (const std::vector<int>& other : seen) CHECK(other == tokens);
  CHECK(contains(loads->describe().notes[0], "drawn independently with replacement, seed 7"));
  CHECK(loads->describe().repeats == doctest::Approx(2400.0 / 12.0));
}
