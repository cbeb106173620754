#include <doctest/doctest.h>

#include "routing/formats.h"
#include "support.h"

using namespace moeplan::routing;
using namespace moeplan::routing::test;

namespace {

TokenTrace parsed_esft(const std::vector<std::string>& texts, std::int64_t hint = 0) {
  std::vector<EsftLayer> layers;
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const int layer = static_cast<int>(i) + 1;
    layers.push_back(parse_esft_layer(texts[i], "layer" + std::to_string(layer), layer));
  }
  return combine_esft(std::move(layers), "folder", hint);
}

std::string esft_fault(const std::vector<std::string>& texts, std::int64_t hint = 0) {
  return error_of([&] { parsed_esft(texts, hint); });
}

// `tokens` tokens on one line, each of the k experts base, base + 1, ...; equal weights.
std::string line_of(int tokens, int k, int base = 0) {
  std::string ids, weights;
  for (int token = 0; token < tokens; ++token) {
    for (int slot = 0; slot < k; ++slot) {
      ids += (ids.empty() ? "" : "\t") + std::to_string(base + slot);
      weights += (weights.empty() ? "" : "\t") + std::string("0.25");
    }
  }
  return ids + "\t\t" + weights + "\n";
}

}  // namespace

TEST_CASE("ids, weights and lines of two layers are read as they stand") {
  const TokenTrace trace = parsed_esft({"3\t1\t0\t2\t\t0.5\t0.25\t0.0003\t1\n5\t4\t\t0.125\t2e-3\n",
                                        "0\t1\t2\t3\t\t.5\t1.\t0\t-0.0\n7\t6\t\t0.10000000000000000555\t1E2\n"});
  CHECK(trace.top_k == 2);
  CHECK(trace.experts == 8);
  CHECK_FALSE(trace.experts_stated);
  CHECK(trace.layer_ids == std::vector<int>{1, 2});
  CHECK(trace.line_tokens == std::vector<std::int64_t>{2, 1});
  CHECK(trace.tokens() == 3);
  CHECK(trace.experts_of[0] == std::vector<std::uint16_t>{3, 1, 0, 2, 5, 4});
  CHECK(trace.weights_of[0] == std::vector<float>{0.5f, 0.25f, 0.0003f, 1.0f, 0.125f, 0.002f});
  CHECK(trace.weights_of[1] == std::vector<float>{0.5f, 1.0f, 0.0f, 0.0f, 0.1f, 100.0f});
}

TEST_CASE("weights of up to and beyond fifteen digits are read to the last bit of a float") {
  // 15, 16, 20 and 21 digits; 0.3 as float is 0.300000011920928955078125.
  const TokenTrace trace =
      parsed_esft({"1\t2\t3\t4\t\t0.30000001192092\t0.300000011920928\t0.3000000119209289550\t"
                   "0.30000001192092895508\n"});
  CHECK(trace.weights_of[0] == std::vector<float>(4, 0.3f));
}

TEST_CASE("line ends of Windows are accepted") {
  const TokenTrace trace = parsed_esft({"1\t2\t\t0.5\t0.25\r\n3\t4\t\t1\t2\r\n"});
  CHECK(trace.experts_of[0] == std::vector<std::uint16_t>{1, 2, 3, 4});
  CHECK(trace.weights_of[0] == std::vector<float>{0.5f, 0.25f, 1.0f, 2.0f});
}

TEST_CASE("the largest k that divides all lines and repeats no expert in a token is inferred, over all layers") {
  CHECK(parsed_esft({line_of(3, 6) + line_of(5, 6)}).top_k ==
        6);  // 18 and 30 ids; 6 also is their greatest common divisor
  CHECK(parsed_esft({line_of(4, 6) + line_of(8, 6)}).top_k == 6);  // 12 divides 24 and 48, but every expert comes twice
  CHECK(parsed_esft({line_of(2, 16)}).top_k == 16);
  CHECK(parsed_esft({line_of(2, 17)}).top_k == 2);  // beyond 16 nothing is tried; 34 ids
  CHECK(parsed_esft({"1\t2\t3\t4\t\t1\t1\t1\t1\n", "1\t2\t1\t4\t\t1\t1\t1\t1\n"}).top_k ==
        2);  // the second layer decides
  CHECK(parsed_esft({"1\t2\t3\t\t1\t1\t1\n", "1\t2\t2\t\t1\t1\t1\n"}).top_k == 1);
}

TEST_CASE("the legal-text trace has six experts a token, 64 experts, and layers 1 to 26 of the same tokens") {
  const TokenTrace trace = std::get<TokenTrace>(read_trace(kLawTrace));
  CHECK(trace.name == kLawTrace);
  CHECK(trace.top_k == 6);
  CHECK(trace.experts == 64);
  CHECK(trace.tokens() == 8327);
  CHECK(trace.line_tokens.size() == 33);
  REQUIRE(trace.layer_ids.size() == 26);
  CHECK(trace.layer_ids.front() == 1);
  CHECK(trace.layer_ids.back() == 26);
  // First and last numbers of expert_weights_1.txt.
  CHECK(trace.experts_of[0][0] == 8);
  CHECK(trace.experts_of[0][5] == 11);
  CHECK(trace.weights_of[0][0] == 0.0411f);
  CHECK(trace.weights_of[0].back() == 0.0003f);
  CHECK(std::get<TokenTrace>(read_trace(kLawTrace, 6)).experts_of == trace.experts_of);
}

TEST_CASE("damage to one token does not turn into a smaller k: it is named") {
  std::string text;
  for (int line = 0; line < 200; ++line) text += line_of(10, 6);
  std::string repeated = text;
  repeated.replace(repeated.rfind("5\t\t"), 1, "4");  // the last token of the last line: 0 1 2 3 4 4
  CHECK(parsed_esft({text, text}).top_k == 6);
  CHECK(esft_fault({text, repeated}) == "layer2:200: token 10 of the line (ids 55 to 60) names expert 4 twice");
  // In a short trace the same says nothing: 19 lines of one token and one of 5 ids.
  std::string few;
  for (int line = 0; line < 19; ++line) few += line_of(1, 6);
  CHECK(parsed_esft({few}).top_k == 6);
  CHECK(parsed_esft({few + line_of(1, 5)}).top_k == 1);
  const std::string shorter = text + "1\t2\t3\t4\t5\t\t1\t1\t1\t1\t1\n";
  CHECK(esft_fault({shorter}) == "layer1:201: 5 ids are no multiple of the 6 experts a token");
}

TEST_CASE("with a given k, lines that are no multiple and tokens with a repeated expert are refused") {
  CHECK(parsed_esft({line_of(4, 6)}, 3).top_k == 3);
  CHECK(esft_fault({"1\t2\t3\t4\t5\t\t1\t1\t1\t1\t1\n"}, 2) ==
        "layer1:1: 5 ids are no multiple of the 2 experts a token");
  CHECK(esft_fault({"1\t2\t3\t4\t\t1\t1\t1\t1\n1\t2\t3\t3\t\t1\t1\t1\t1\n"}, 2) ==
        "layer1:2: token 2 of the line (ids 3 to 4) names expert 3 twice");
}

TEST_CASE("each fault of a line is told with its line and column") {
  const std::string id = "expected an expert id (a whole number from 0 to 65534), got ";
  CHECK(esft_fault({"1\t2\t\t1\t1\n1\tx2\t\t1\t1\n"}) == "layer1:2:3: " + id + "'x2'");
  CHECK(esft_fault({"1\t-2\t\t1\t1\n"}) == "layer1:1:3: " + id + "'-2'");
  CHECK(esft_fault({"1\t2.0\t\t1\t1\n"}) == "layer1:1:3: " + id + "'2.0'");
  CHECK(esft_fault({"65535\t2\t\t1\t1\n"}) == "layer1:1:1: " + id + "'65535'");
  CHECK(parsed_esft({"65534\t2\t\t1\t1\n"}).experts == 65535);
  CHECK(esft_fault({"99999999999999999999\t2\t\t1\t1\n"}) == "layer1:1:1: " + id + "'99999999999999999999'");
  CHECK(esft_fault({"1\t2 \t\t1\t1\n"}) == "layer1:1:3: " + id + "'2 '");
  CHECK(esft_fault({"\t\t1\t1\n"}) == "layer1:1:1: " + id + "''");
  CHECK(esft_fault({"1\t2\t\t1\t-0.5\n"}) == "layer1:1:8: expected a weight >= 0, got '-0.5'");
  CHECK(esft_fault({"1\t2\t\t1\tnan\n"}) == "layer1:1:8: expected a finite weight, got 'nan'");
  CHECK(esft_fault({"1\t2\t\tinf\t1\n"}) == "layer1:1:6: expected a finite weight, got 'inf'");
  CHECK(esft_fault({"1\t2\t\t1e39\t1\n"}) ==
        "layer1:1:6: expected a finite weight, got '1e39'");  // float ends at 3.4e38
  CHECK(contains(esft_fault({"1\t2\t\t1e999\t1\n"}), "layer1:1:6: expected a weight (a finite number >= 0)"));
  CHECK(contains(esft_fault({"1\t2\t\t0.1.2\t1\n"}), "layer1:1:6: expected a weight"));
  CHECK(contains(esft_fault({"1\t2\t\t1\t\t1\n"}), "layer1:1:8: an empty weight"));
  CHECK(esft_fault({"1\t2\t\t1\t1\t1\n"}) == "layer1:1: 2 ids, but 3 weights");
  CHECK(esft_fault({"1\t2\t\t1\n"}) == "layer1:1: 2 ids, but 1 weights");
  CHECK(esft_fault({"1\t2\n"}) == "layer1:1:4: the line ends after the ids: expected two tabs and the weights");
  CHECK(esft_fault({"1\t2\t\t1\t1\n\n1\t2\t\t1\t1\n"}) == "layer1:2:1: an empty line");
  CHECK(contains(esft_fault({"1\t2\t\t1\r1\t1\n"}), "layer1:1:7: a carriage return inside the line"));
}

TEST_CASE("a file that was cut is refused, wherever the cut is") {
  CHECK(esft_fault({"1\t2\t\t1\t1\n1\t2\t\t1\t0.12"}) == "layer1:2: the last line has no line end: the file was cut");
  CHECK(esft_fault({"1\t2"}) == "layer1:1: the last line has no line end: the file was cut");
  CHECK(esft_fault({""}) == "layer1: the file is empty");
}

TEST_CASE("layers with other tokens are refused with both places") {
  const std::string two = "1\t2\t\t1\t1\n3\t4\t\t1\t1\n", longer = "1\t2\t\t1\t1\n3\t4\t5\t6\t\t1\t1\t1\t1\n";
  CHECK(esft_fault({two, "1\t2\t\t1\t1\n"}) ==
        "layer2: 1 lines, but layer 1 has 2: all layers must hold the same tokens\n  see also layer1");
  CHECK(esft_fault({two, longer}) ==
        "layer2:2: 4 ids of 2 a token, but layer 1 has 2: all layers must hold the same tokens\n  see also layer1:2");
}

TEST_CASE("all faults are told at once, but no more than twenty") {
  const std::string both = esft_fault({"x\t2\t\t1\t1\n1\t2\t\t1\t-1\n", "1\t2\t\t1\n1\t2\t\t1\t1\n"});
  CHECK(contains(both, "layer1:1:1:"));
  CHECK(contains(both, "layer1:2:8:"));
  CHECK(contains(both, "layer2:1: 2 ids, but 1 weights"));
  std::string many;
  for (int i = 0; i < 50; ++i) many += "x\n";
  try {
    parsed_esft({many, many});
    FAIL("no error");
  } catch (const moeplan::base::Error& error) {
    CHECK(error.faults().size() == 20);
  }
}
