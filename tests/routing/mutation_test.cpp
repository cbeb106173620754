#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/file.h"
#include "base/random.h"
#include "routing/formats.h"
#include "support.h"

// Damaged input: whatever bytes a file holds, it is read as a trace that keeps its promises, or refused as the user's
// fault.
using namespace moeplan::routing;
using namespace moeplan::routing::test;

namespace {

class Mutator {
 public:
  explicit Mutator(std::uint64_t seed) : random_(seed) {}

  std::string mutate(std::string text) {
    for (std::uint64_t edits = 1 + below(3); edits > 0; --edits) edit(text);
    return text;
  }
  std::uint64_t below(std::uint64_t range) { return random_.bits(1, index_++) % range; }

 private:
  void edit(std::string& text) {
    const std::size_t at = below(text.size() + 1);
    switch (below(6)) {
      case 0:
        if (at < text.size()) text[at] = letter();
        break;
      case 1:
        text.insert(at, 1, letter());
        break;
      case 2:
        text.erase(at, 1 + below(4));
        break;
      case 3: {
        const std::size_t from = below(text.size() + 1);  // drawn one by one: arguments have no fixed order
        const std::size_t size = below(12);
        text.insert(at, text.substr(from, size));
        break;
      }
      case 4:
        text.resize(at);
        break;
      default:
        text.insert(at, pieces_[below(std::size(pieces_))]);
        break;
    }
  }
  char letter() {
    constexpr std::string_view kLikely = "0123456789\t\n\r,.-+eE \"";
    return below(8) == 0 ? static_cast<char>(below(256)) : kLikely[below(kLikely.size())];
  }

  static constexpr const char* pieces_[] = {"\t\t",
                                            "\n\n",
                                            "99999999999999999999",
                                            "-1",
                                            "nan",
                                            "1e400",
                                            "65535",
                                            ",,",
                                            "e0",
                                            "\xEF\xBB\xBF",
                                            "1000000000000000",
                                            "0.0000000000000000001"};
  moeplan::base::Random random_;
  std::uint64_t index_ = 0;
};

void check_promises(const TokenTrace& trace) {
  REQUIRE(trace.top_k >= 1);
  REQUIRE(trace.tokens() >= 1);
  for (std::size_t layer = 0; layer < trace.experts_of.size(); ++layer) {
    REQUIRE(trace.experts_of[layer].size() == static_cast<std::size_t>(trace.tokens() * trace.top_k));
    REQUIRE(trace.weights_of[layer].size() == trace.experts_of[layer].size());
    for (const float weight : trace.weights_of[layer]) REQUIRE((weight >= 0.0f && std::isfinite(weight)));
  }
  const auto experts = std::max(trace.experts, trace.top_k);
  const auto layers = static_cast<std::int64_t>(trace.experts_of.size());
  const auto loads = make_token_loads(std::make_shared<TokenTrace>(trace), {13, 1, 1, 2, layers, experts, trace.top_k},
                                      Resample::lines, 1);
  REQUIRE(slices_add_up(*loads, {0, 1, 0, 0, 13}, layers - 1, {4}));
}

void check_promises(const CountTrace& trace) {
  REQUIRE(!trace.rows.empty());
  REQUIRE(trace.counts.size() == trace.rows.size() * static_cast<std::size_t>(trace.experts));
  std::set<int> layers;
  for (const CountTrace::Row& row : trace.rows)
    layers.insert(static_cast<int>(std::min<std::int64_t>(row.layer, 1 << 30)));
  const std::vector<int> ids(layers.begin(), layers.end());
  if (!trace_faults(trace, trace.experts, 2, ids).empty() || trace.experts < 2) return;
  const auto count = static_cast<std::int64_t>(ids.size());
  const auto loads = make_count_loads(std::make_shared<CountTrace>(trace), {13, 1, 2, 2, count, trace.experts, 2});
  REQUIRE(slices_add_up(*loads, {1, 1, 1, 0, 13}, count - 1, {4}));
}

// Returns how many of the mutations were accepted.
template <typename Parse>
int accepted(std::uint64_t seed, int rounds, const std::string& valid, const Parse& parse) {
  Mutator mutator(seed);
  int good = 0;
  for (int round = 0; round < rounds; ++round) {
    const std::string text = mutator.mutate(valid);
    INFO("round " << round);
    try {
      check_promises(parse(text));
      ++good;
    } catch (const moeplan::base::Error& error) {
      REQUIRE(!error.faults().empty());
      REQUIRE(error.faults().size() <= kMostFaults);
      for (const moeplan::base::Fault& fault : error.faults()) REQUIRE(!fault.where.file.empty());
    }
  }
  return good;
}

}  // namespace

TEST_CASE("damaged layer files are read consistently or refused") {
  const std::string valid = "1\t2\t3\t4\t\t0.5\t0.25\t0.125\t1e-3\n5\t6\t\t0.1\t0.2\n0\t7\t2\t9\t\t1\t0\t0.3\t0.4\n";
  const auto parse = [&](const std::string& text) {
    std::vector<EsftLayer> layers;
    layers.push_back(parse_esft_layer(valid, "valid", 1));
    layers.push_back(parse_esft_layer(text, "mutated", 2));
    return combine_esft(std::move(layers), "folder", 0);
  };
  const int good = accepted(1, 6000, valid, parse);
  CHECK(good > 100);  // both outcomes are met often, or the mutations say nothing
  CHECK(good < 5000);
}

TEST_CASE("damaged count files are read consistently or refused") {
  const std::string valid = "step,layer,microbatch,e0,e1,e2\n0,1,0,4,2,2\n0,2,0,3,3,2\n1,1,0,1,1,2\n1,2,0,8,8,0\n";
  const auto parse = [](const std::string& text) { return parse_counts_csv(text, "mutated"); };
  const int good = accepted(2, 6000, valid, parse);
  CHECK(good > 100);
  CHECK(good < 5000);
}

TEST_CASE("damaged JSON lines of counts are read consistently or refused") {
  const std::string valid =
      "{\"step\":0,\"layer\":1,\"counts\":[4,2,2]}\n{\"step\":0,\"layer\":2,\"counts\":[3,3,2]}\n"
      "{\"step\":1,\"layer\":1,\"counts\":[1,1,2]}\n{\"step\":1,\"layer\":2,\"counts\":[8,8,0]}\n";
  const auto parse = [](const std::string& text) {
    moeplan::base::require_utf8(text, "mutated");  // as the reader of files does
    return parse_counts_jsonl(text, "mutated");
  };
  const int good = accepted(3, 6000, valid, parse);
  CHECK(good > 100);
  CHECK(good < 5000);
}

TEST_CASE("damaged samples of gpt-oss are read consistently or refused") {
  const std::string valid =
      R"({"router_data": [{"token_7": {"layer_2": {"selected_experts": [3, 1], "selected_probs": [0.5, 0.25]}}},)"
      R"({"token_8": {"layer_2": {"selected_experts": [0, 4], "selected_probs": [0.75, 0.125]}}}]})";
  const auto parse = [](const std::string& text) {
    moeplan::base::require_utf8(text, "mutated");
    return std::get<TokenTrace>(parse_json_trace(text, {"mutated", {}}));
  };
  const int good = accepted(4, 6000, valid, parse);
  CHECK(good > 100);
  CHECK(good < 5000);
}
