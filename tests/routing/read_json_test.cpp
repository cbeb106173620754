#include <doctest/doctest.h>

#include <fstream>
#include <sstream>

#include "routing/formats.h"
#include "routing/statistics.h"
#include "support.h"

using namespace moeplan::routing;
using namespace moeplan::routing::test;

namespace {

const std::string kFolder = std::string(MOEPLAN_SOURCE_DIR) + "/tests/data/routing";
const std::string kOlmoe = kFolder + "/olmoe/expert_counts.json";
const std::string kSample = kFolder + "/gptoss20b/abstract_algebra.json.zst";

std::string json_fault(const std::string& text, const std::string& part = {}) {
  return error_of([&] { parse_json_trace(text, {"a.json", part}); });
}

// A sample of two tokens and one layer, with one piece replaced.
std::string sample_with(const std::string& from, const std::string& to) {
  std::string text =
      R"({"router_data": [{"token_7": {"layer_2": {"selected_experts": [3, 1], "selected_probs": [0.5, 0.25]}}},)"
      R"({"token_8": {"layer_2": {"selected_experts": [0, 4], "selected_probs": [0.75, 0.125]}}}]})";
  return from.empty() ? text : text.replace(text.find(from), from.size(), to);
}

// Two layers of four experts, two a token, with one piece replaced.
std::string olmoe_with(const std::string& from, const std::string& to) {
  std::string text = R"({"layers": [0, 7], "models": {"m": {"num_experts": 4, "topk": 2, "counts": )"
                     R"({"c4": [[4, 2, 2, 0], [1, 1, 3, 3]]}}}})";
  return from.empty() ? text : text.replace(text.find(from), from.size(), to);
}

}  // namespace

TEST_CASE("every part of the OLMoE counts has the reference statistics in every layer, to four decimals") {
  std::ifstream reference(kFolder + "/olmoe_statistics.csv");
  std::string line;
  REQUIRE(std::getline(reference, line));
  int rows = 0;
  for (; std::getline(reference, line); ++rows) {
    std::istringstream cells(line);
    std::string part, layer, cell;
    std::getline(cells, part, ',');
    std::getline(cells, layer, ',');
    CAPTURE(part);
    CAPTURE(layer);
    const CountTrace trace = std::get<CountTrace>(read_trace(kOlmoe + "#" + part));
    CHECK(trace.top_k == (part.starts_with("mistral") ? 2 : 8));
    REQUIRE(trace.rows.size() == 3);
    const std::size_t row = layer == "0" ? 0 : layer == "7" ? 1 : 2;
    CHECK(trace.rows[row].layer == std::stoll(layer));
    const std::vector<std::int64_t> counts = trace.row_counts(row);
    std::vector<double> computed = {max_over_mean(counts), coefficient_of_variation(counts)};
    for (const std::int64_t ranks : {4, 8, 16, 32}) {
      computed.push_back(trace.experts % ranks == 0 ? rank_max_over_mean(counts, ranks) : -1.0);
    }
    for (std::size_t i = 0; i < computed.size() && std::getline(cells, cell, ','); ++i) {
      if (!cell.empty()) CHECK(std::abs(computed[i] - std::stod(cell)) <= 0.00005 + 1e-12);
    }
  }
  CHECK(rows == 39);  // 13 parts of 3 layers
}

TEST_CASE("OLMoE counts without a part, or with an unknown one, list what there is") {
  const std::string none = error_of([] { read_trace(kOlmoe); });
  CHECK(contains(none, "holds several traces: add '#' and one of mistral/arxiv, "));
  CHECK(contains(none, "olmoe-sft/tulu"));
  const std::string slip = error_of([] { read_trace(kOlmoe + "#olmoe/gitub"); });
  CHECK(contains(slip, "has no 'olmoe/gitub', only "));
  CHECK(contains(slip, "did you mean 'olmoe/github'?"));
  CHECK(std::get<CountTrace>(read_trace(kOlmoe + "#olmoe/c4")).name == kOlmoe + "#olmoe/c4");
}

TEST_CASE("damaged OLMoE counts are refused at their place") {
  CHECK(json_fault(olmoe_with("", ""), "m/c4") == "no error");
  CHECK(contains(json_fault(olmoe_with("[0, 7]", "[7, 7]"), "m/c4"), "a second row for step 0, layer 7"));
  CHECK(contains(json_fault(olmoe_with("[0, 7]", "[0]"), "m/c4"), "models.m.counts.c4: expected a list for each of 1"));
  CHECK(contains(json_fault(olmoe_with("\"topk\": 2", "\"topk\": 5"), "m/c4"),
                 "models.m.topk: expected an integer from"));
  CHECK(
      contains(json_fault(olmoe_with("4, 2, 2, 0", "4, 2, 2"), "m/c4"), "models.m.counts.c4[0]: expected a list of 4"));
  CHECK(contains(json_fault(olmoe_with("4, 2, 2, 0", "4, -2, 2, 0"), "m/c4"), "the count of expert 1 is negative: -2"));
  CHECK(contains(json_fault(olmoe_with("4, 2, 2, 0", "0, 0, 0, 0"), "m/c4"), "all counts of the row are 0"));
  CHECK(contains(json_fault(olmoe_with("4, 2, 2, 0", "4, 2.5, 2, 0"), "m/c4"), "expected whole numbers"));
  CHECK(json_fault(olmoe_with("4, 2, 2, 0", "4.0, 2, 2, 0"), "m/c4") == "no error");
  CHECK(contains(json_fault(olmoe_with("\"topk\"", "\"num_experts\": 4, \"topk\""), "m/c4"), "stands twice"));
  CHECK(contains(json_fault("{\"models\": {}, \"layers\": [1]}"), "holds no counts"));
}

TEST_CASE("a gpt-oss sample is one line of tokens whose numbers start anywhere") {
  const TokenTrace trace = std::get<TokenTrace>(read_trace(kSample));
  CHECK(trace.name == kSample);
  CHECK(trace.top_k == 4);
  CHECK(trace.experts == 32);  // the largest id is 31
  CHECK_FALSE(trace.experts_stated);
  CHECK(trace.line_tokens == std::vector<std::int64_t>{106});
  REQUIRE(trace.layer_ids.size() == 24);
  CHECK(trace.layer_ids.front() == 0);
  CHECK(trace.layer_ids.back() == 23);  // by number, not by text: layer_10 comes after layer_9
  // The file: token_150 (the first), layer_0 has 31, 21, 22, 6; layer_23 has 14, 19, 7, 3 with 0.353515625 first.
  CHECK(std::vector<std::uint16_t>(trace.experts_of[0].begin(), trace.experts_of[0].begin() + 4) ==
        std::vector<std::uint16_t>{31, 21, 22, 6});
  CHECK(std::vector<std::uint16_t>(trace.experts_of[23].begin(), trace.experts_of[23].begin() + 4) ==
        std::vector<std::uint16_t>{14, 19, 7, 3});
  CHECK(trace.weights_of[23][0] == 0.353515625f);
  // Counted from the file by a separate program: expert 31 of layer 0 is named 68 times in 424 choices of 32 experts.
  std::vector<std::int64_t> counts(32, 0);
  for (const std::uint16_t expert : trace.experts_of[0]) ++counts[expert];
  CHECK(counts[31] == 68);
  CHECK(max_over_mean(counts) == doctest::Approx(68.0 / (424.0 / 32.0)));
}

TEST_CASE("damaged samples are refused at their place") {
  CHECK(json_fault(sample_with("", "")) == "no error");
  CHECK(contains(json_fault(sample_with("token_8", "token_9")), "router_data[1]: expected token_8"));
  CHECK(contains(json_fault(sample_with("token_8", "tok_8")), "expected the key token_<number>, got \"tok_8\""));
  CHECK(contains(json_fault(sample_with("[0, 4]", "[4, 4]")),
                 "router_data[1].token_8.layer_2: the token names expert 4"));
  CHECK(contains(json_fault(sample_with("[0, 4]", "[0, 65535]")), "ids of experts from 0 to 65534"));
  CHECK(json_fault(sample_with("[0, 4]", "[0, 65534]")) == "no error");
  CHECK(contains(json_fault(sample_with("[0, 4]", "[0]")), "two lists of one length"));
  CHECK(contains(json_fault(sample_with("[0, 4], \"selected_probs\": [0.75, 0.125]", "[0], \"selected_probs\": [1]")),
                 "1 experts, expected 2 as in the first token"));
  CHECK(contains(json_fault(sample_with("0.125", "-0.125")), "expected finite weights >= 0"));
  CHECK(contains(json_fault(sample_with("0.125", "1e300")), "expected finite weights >= 0"));
  CHECK(contains(json_fault(sample_with("0.125", "1e999")), "a number is too large"));
  // A first token whose layers are wrong does not count: the second is measured by itself.
  CHECK(
      contains(json_fault(sample_with("{\"layer_2\": {\"selected_experts\": [3, 1], \"selected_probs\": [0.5, 0.25]}}",
                                      "{\"layer_2\": {}, \"layer_x\": {}}")),
               "a.json: router_data[0].token_7: expected keys layer_<number>, got \"layer_x\""));
  CHECK(contains(json_fault("{\"router_data\": []}"), "expected a list of tokens"));
  CHECK(contains(json_fault(sample_with("", ""), "x"), "this format has no parts"));
}

TEST_CASE("JSON that is no trace, or no JSON, is refused with its place") {
  CHECK(contains(json_fault("{}"), "a.json: not a known trace"));
  CHECK(contains(json_fault("[1]"), "a.json: not a known trace"));
  CHECK(contains(json_fault("{\n  \"models\": ,\n}"), "a.json:2:13: not valid JSON: unexpected ','"));
  // What was read is not repeated: here it holds the words of the parser. 15 letters and one of two bytes stand before.
  CHECK(json_fault("{\"a; expected '\xC3\xA9\n") ==
        "a.json:1:18: not valid JSON: invalid string: control character U+000A (LF) must be escaped to \\u000A or \\n");
  CHECK(contains(json_fault(std::string(33, '[')), "nested deeper than 32"));
  CHECK(contains(json_fault(std::string(32, '[') + std::string(32, ']')), "not a known trace"));
}
