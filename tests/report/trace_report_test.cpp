#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "report/evaluation.h"
#include "report/report.h"
#include "report/trace_summary.h"

namespace moeplan::report {
using namespace testing;
using nlohmann::json;

namespace {

// Two tokens, two experts each of four: expert 0 twice, 1 and 2 once.
routing::TokenTrace two_tokens() {
  routing::TokenTrace trace;
  trace.name = "/where/it/lies";
  trace.experts = 4;
  trace.top_k = 2;
  trace.layer_ids = {5};
  trace.line_tokens = {2};
  trace.experts_of = {{0, 1, 0, 2}};
  return trace;
}

// Layer 3: [6 2 0 0] over two microbatches; layer 4: [1 1 1 1].
routing::CountTrace small_counts() {
  routing::CountTrace trace;
  trace.name = "counts.csv";
  trace.experts = 4;
  trace.rows = {{0, 4, 0, -1, 2}, {0, 3, 0, -1, 3}, {0, 3, 1, -1, 4}};
  trace.counts = {1, 1, 1, 1, 4, 0, 0, 0, 2, 2, 0, 0};
  return trace;
}

}  // namespace

TEST_CASE("a token trace is counted by layer and checked") {
  const json j = json::parse(trace_json(two_tokens(), {2, 3}));
  CHECK(j["schema"] == "moeplan.trace-info/1");
  CHECK(j["trace"] == "lies");
  CHECK(j["experts"] == 4);
  CHECK(j["top_k"] == 2);
  CHECK(j["tokens"] == 2);
  const json& layer = j["layers"][0];
  CHECK(layer["layer"] == 5);
  CHECK(layer["copies"] == 4);
  CHECK(layer["max_over_mean"] == 2.0);  // 2 of a mean of 1
  CHECK(layer["ep"]["2"] == 1.5);        // experts 0 and 1 hold 3 of a mean of 2
  CHECK_FALSE(layer["ep"].contains("3"));
  CHECK(j["ep_left_out"] == json({3}));
  for (const auto& [check, result] : j["checks"].items()) CHECK_MESSAGE(result == "ok", check);
  CHECK(j["checks"].size() == 3);
  CHECK(trace_is_sound(two_tokens()));
}

TEST_CASE("checks of a token trace find what is wrong") {
  routing::TokenTrace trace = two_tokens();
  trace.experts_of = {{0, 1, 2, 2}};
  CHECK(json::parse(trace_json(trace, {}))["checks"]["experts_of_a_token_differ"] == "1 repeated choices");
  CHECK_FALSE(trace_is_sound(trace));
  trace.experts_of = {{0, 1, 0, 4}};  // 4 is one above the last expert
  CHECK(json::parse(trace_json(trace, {}))["checks"]["ids_are_experts"] == "1 ids are above the last expert");
  trace.experts_of = {{0, 1, 0}};
  CHECK(json::parse(trace_json(trace, {}))["checks"]["copies_are_tokens_times_top_k"] ==
        "layer 5 has 3 copies, expected 4");
}

TEST_CASE("counts are summed over microbatches, layers ascend") {
  const json j = json::parse(trace_json(small_counts(), {4}));
  CHECK(j["layers"][0]["layer"] == 3);
  CHECK(j["layers"][0]["copies"] == 8);
  CHECK(j["layers"][0]["max_over_mean"] == 3.0);  // 6 of a mean of 2
  CHECK(j["layers"][0]["ep"]["4"] == 3.0);
  CHECK(j["layers"][1]["max_over_mean"] == 1.0);
  CHECK(j["top_k"].is_null());
  CHECK(j["tokens"].is_null());
  CHECK(j["steps"] == 1);
  CHECK(holds(j["assumptions"].dump(), "top_k"));
}

TEST_CASE("the table ends with the mean and the worst of each column") {
  const std::string text = trace_text(small_counts(), {2, 3});
  CHECK(text.starts_with("TRACE  counts.csv: 2 layers, 4 experts, 1 step, counts only\n"));
  // Mean of 3 and 1 is 2; EP 2: 8 of 4 and 2 of 2, mean 1.5, worst 2.
  CHECK(holds(text, "   mean       6      2.00       -"));
  CHECK(holds(text, "  worst       8      3.00       -"));
  CHECK(holds(text, "EP 3 is left out: it does not divide 4 experts"));
  CHECK(holds(text, "rows_are_not_empty: ok"));
}

}  // namespace moeplan::report
