#include <doctest/doctest.h>

#include "routing/count_scaling.h"
#include "routing/formats.h"
#include "routing/loads.h"
#include "support.h"

using namespace moeplan::routing;
using namespace moeplan::routing::test;

namespace {

std::shared_ptr<CountTrace> parsed(const std::string& text) {
  return std::make_shared<CountTrace>(parse_counts_csv(text, "counts.csv"));
}

}  // namespace

TEST_CASE("a row for the right number of tokens is used as it is, also in slices") {
  const auto loads = make_count_loads(parsed("step,layer,e0,e1,e2,e3\n0,1,4,2,1,1\n"), {4, 1, 1, 1, 1, 4, 2});
  CHECK(counts_of(*loads, {0, 0, 0, 0, 4}, 0) == std::vector<std::int64_t>{4, 2, 1, 1});
  CHECK(slices_add_up(*loads, {0, 0, 0, 0, 4}, 0, {1, 2, 3}));
  CHECK(loads->describe().source ==
        "counts counts.csv: 1 step, 1 layer, all microbatches together, all sources together");
  CHECK(loads->describe().repeats == 0.0);
  CHECK_FALSE(loads->has_weights());
}

TEST_CASE("iteration, microbatch and replica go round the steps, microbatches and sources of the file") {
  // The count of e0 names the row: 1 + 6 step index + 3 microbatch index + source index; 16 tokens, top-1.
  std::string text = "layer,source,microbatch,step,e0,e1\n";
  for (int step = 0; step < 2; ++step) {
    for (int microbatch = 0; microbatch < 2; ++microbatch) {
      for (int source = 2; source >= 0; --source) {  // rows stand in any order
        const int count = 1 + 6 * step + 3 * microbatch + source;
        // Steps 3 and 7, microbatches 5 and 6, sources 10, 20 and 30: only their order counts.
        text += "9," + std::to_string(10 + 10 * source) + "," + std::to_string(5 + microbatch) + "," +
                std::to_string(step == 0 ? 3 : 7) + "," + std::to_string(count) + "," + std::to_string(16 - count) +
                "\n";
      }
    }
  }
  const auto loads = make_count_loads(parsed(text), {16, 1, 6, 4, 1, 2, 1});
  for (std::int64_t iteration = 0; iteration < 4; ++iteration) {
    for (std::int64_t microbatch = 0; microbatch < 4; ++microbatch) {
      for (std::int64_t replica = 0; replica < 6; ++replica) {
        const std::int64_t expected = 1 + 6 * (iteration % 2) + 3 * (microbatch % 2) + replica % 3;
        CHECK(counts_of(*loads, {iteration, microbatch, replica, 0, 16}, 0)[0] == expected);
      }
    }
  }
  CHECK(loads->describe().source == "counts counts.csv: 2 steps, 1 layer, microbatches: 2, sources: 3");
  CHECK(loads->describe().repeats == doctest::Approx(4.0));  // 24 microbatches from 6 rows
}

TEST_CASE(
    "a row without source or microbatch stands for all of them together: their counts add up to the row exactly") {
  // 3 replicas x 2 microbatches of 4 tokens, k = 2: 48 copies a step, 24 a microbatch. Odd counts cannot be split
  // evenly, yet nothing is lost.
  const StepShape shape{4, 1, 3, 2, 1, 4, 2};
  const std::vector<std::int64_t> step = {17, 13, 11, 7}, microbatch = {11, 5, 5, 3};
  const auto by_step = make_count_loads(parsed("step,layer,e0,e1,e2,e3\n0,1,17,13,11,7\n"), shape);
  const auto by_microbatch = make_count_loads(parsed("step,layer,microbatch,e0,e1,e2,e3\n0,1,0,11,5,5,3\n"), shape);
  std::vector<std::int64_t> whole(4, 0);
  for (std::int64_t mb = 0; mb < 2; ++mb) {
    std::vector<std::int64_t> part(4, 0);
    for (std::int64_t replica = 0; replica < 3; ++replica) {
      const auto counts = counts_of(*by_step, {0, mb, replica, 0, 4}, 0);
      std::int64_t sum = 0;
      for (std::size_t e = 0; e < 4; ++e) {
        whole[e] += counts[e];
        sum += counts[e];
      }
      CHECK(sum == 8);  // every replica sends its own 4 tokens twice
      by_microbatch->add_counts({0, mb, replica, 0, 4}, 0, part);
    }
    CHECK(part == microbatch);
  }
  CHECK(whole == step);
}

TEST_CASE("a row for another number of tokens is scaled by largest remainder, and the description says so") {
  // 4 tokens, k = 2 -> 6 tokens: factor 1.5: 4.5, 3, 3, 1.5 of 12; both halves compete, the lower expert wins.
  const auto loads = make_count_loads(parsed("step,layer,e0,e1,e2,e3\n0,1,3,2,2,1\n"), {6, 1, 1, 1, 1, 4, 2});
  CHECK(counts_of(*loads, {0, 0, 0, 0, 6}, 0) == std::vector<std::int64_t>{5, 3, 3, 1});
  CHECK(slices_add_up(*loads, {0, 0, 0, 0, 6}, 0, {2, 5}));
  REQUIRE(!loads->describe().notes.empty());
  CHECK(loads->describe().notes[0] == "counts scaled from 4 to 6 tokens");
  CHECK(loads->describe().repeats == doctest::Approx(1.5));
}

TEST_CASE("an expert that every token chose keeps one copy a token after scaling") {
  const auto loads = make_count_loads(parsed("step,layer,e0,e1,e2\n0,1,3,2,1\n"), {1000, 1, 1, 1, 1, 3, 2});
  CHECK(counts_of(*loads, {0, 0, 0, 0, 1000}, 0) == std::vector<std::int64_t>{1000, 667, 333});
}

TEST_CASE("scaling is exact at the largest counts") {
  // 10^15 split 1 : 2 : 7 onto 2^37 = 137,438,953,472: shares 13,743,895,347.2, 27,487,790,694.4, 96,207,267,430.4.
  const std::vector<std::int64_t> counts = {100'000'000'000'000, 200'000'000'000'000, 700'000'000'000'000};
  CHECK(scaled_counts(counts, std::int64_t{1} << 37) ==
        std::vector<std::int64_t>{13'743'895'347, 27'487'790'695, 96'207'267'430});
}

TEST_CASE("a model that agrees with its trace has no faults, and each disagreement is named with both numbers") {
  TokenTrace tokens;
  tokens.experts = 64;
  tokens.top_k = 6;
  tokens.layer_ids = {1, 2, 3};
  const std::vector<int> same = {1, 2, 3}, other = {3, 4, 5, 7};
  CHECK(trace_faults(tokens, 64, 6, same).empty());
  CHECK(trace_faults(tokens, 65, 6, same).empty());  // the largest id that was chosen says nothing about more experts
  auto faults = trace_faults(tokens, 63, 6, same);
  REQUIRE(faults.size() == 1);
  CHECK(faults[0].first == "experts");
  CHECK(faults[0].second == "the trace names expert 63 (so at least 64 experts), the model has 63");
  tokens.experts_stated = true;
  CHECK(trace_faults(tokens, 64, 6, same).empty());
  faults = trace_faults(tokens, 128, 8, other);
  REQUIRE(faults.size() == 3);
  CHECK(faults[0].second == "the trace has 64 experts, the model 128");
  CHECK(faults[1].first == "top_k");
  CHECK(faults[1].second == "the trace has 6 experts a token, the model 8");
  CHECK(faults[2].first == "layers");
  CHECK(faults[2].second == "the trace has the MoE layers {1..3}, the model {3..5, 7}");
}

TEST_CASE("a count trace is compared by its columns, layers and what top-k allows in a row") {
  const CountTrace counts = parse_counts_csv("step,layer,e0,e1,e2,e3\n0,1,4,2,1,1\n0,2,2,2,2,2\n", "counts.csv");
  const std::vector<int> same = {1, 2}, fewer = {1};
  CHECK(trace_faults(counts, 4, 2, same).empty());  // 8 copies are 4 tokens, and expert 0 got all 4
  CHECK(trace_faults(counts, 4, 1, same).empty());
  auto faults = trace_faults(counts, 8, 2, fewer);
  REQUIRE(faults.size() == 2);
  CHECK(faults[0].second == "the trace has counts of 4 experts, the model has 8");
  CHECK(faults[1].second == "the trace has the MoE layers {1..2}, the model {1}");
  faults = trace_faults(counts, 4, 4, same);  // 8 copies are 2 tokens now
  REQUIRE(faults.size() == 1);
  CHECK(faults[0].first == "top_k");
  CHECK(faults[0].second ==
        "line 2: expert 0 got 4 copies, more than the 2 tokens of the row (8 copies, 4 experts a token)");
  faults = trace_faults(counts, 4, 3, same);
  REQUIRE(faults.size() == 2);
  CHECK(faults[0].second == "line 2: 8 copies are no multiple of the model's 3 experts a token");
}
