#include <doctest/doctest.h>

#include "routing/formats.h"
#include "support.h"

using namespace moeplan::routing;
using namespace moeplan::routing::test;

namespace {

// Layers 0, 7 and 15 of 4 experts, 2 a token; layer n sends most to expert 0, 1 and 2.
const char* const kThreeLayers = "step,layer,e0,e1,e2,e3\n0,0,8,4,4,0\n0,7,0,8,4,4\n0,15,4,0,8,4\n";

std::shared_ptr<const Trace> three_layers() {
  return std::make_shared<const Trace>(parse_counts_csv(kThreeLayers, "c.csv"));
}

StepShape shape_of(std::int64_t layers) { return {8, 1, 1, 1, layers, 4, 2}; }

}  // namespace

TEST_CASE("a cyclic map lets layer i read the (i mod n)-th layer of the trace") {
  const auto loads = make_trace_loads(three_layers(), shape_of(5), {TraceMap::Kind::cyclic, {}}, Resample::lines, 1);
  CHECK(loads->shape().moe_layers == 5);
  const std::vector<std::vector<std::int64_t>> expected = {
      {8, 4, 4, 0}, {0, 8, 4, 4}, {4, 0, 8, 4}, {8, 4, 4, 0}, {0, 8, 4, 4}};
  for (std::int64_t layer = 0; layer < 5; ++layer) {
    CHECK(counts_of(*loads, {0, 0, 0, 0, 8}, layer) == expected[static_cast<std::size_t>(layer)]);
    CHECK(slices_add_up(*loads, {0, 0, 0, 0, 8}, layer, {3}));
  }
  CHECK(loads->describe().notes.back() == "the MoE layers read the layers 0, 7, 15, 0, 7 of the trace");
}

TEST_CASE("a list maps each layer to one of the trace by its number there") {
  const auto loads =
      make_trace_loads(three_layers(), shape_of(2), {TraceMap::Kind::listed, {15, 0}}, Resample::lines, 1);
  CHECK(counts_of(*loads, {0, 0, 0, 0, 8}, 0) == std::vector<std::int64_t>{4, 0, 8, 4});
  CHECK(counts_of(*loads, {0, 0, 0, 0, 8}, 1) == std::vector<std::int64_t>{8, 4, 4, 0});
}

TEST_CASE("a map works on token traces and keeps their weights") {
  std::vector<EsftLayer> layers;
  layers.push_back(parse_esft_layer("0\t1\t2\t3\t\t0.5\t0.25\t0.5\t0.25\n", "a", 1));
  layers.push_back(parse_esft_layer("3\t2\t1\t0\t\t0.75\t0.25\t0.5\t0.25\n", "b", 2));
  const auto trace = std::make_shared<const Trace>(combine_esft(std::move(layers), "t", 2));
  const auto loads =
      make_trace_loads(trace, {2, 1, 1, 1, 3, 4, 2}, {TraceMap::Kind::listed, {2, 2, 1}}, Resample::lines, 1);
  std::vector<Pair> pairs;
  loads->pairs({0, 0, 0, 0, 2}, 1, pairs);
  REQUIRE(pairs.size() == 4);
  CHECK(pairs[0].expert == 3);
  CHECK(pairs[0].weight == 0.75f);
  CHECK(loads->has_weights());
}

TEST_CASE("with a map the layers need not be the model's, but experts and top-k must") {
  const auto trace = three_layers();
  const std::vector<int> ids = {3, 4};
  const auto faults = [&](const TraceMap& map, std::int64_t experts, std::int64_t k) {
    std::string text;
    for (const auto& [what, message] : trace_faults(*trace, experts, k, ids, map)) text += what + ": " + message + "\n";
    return text;
  };
  CHECK(contains(faults({}, 4, 2), "layers: the trace has the MoE layers {0, 7, 15}, the model {3..4}"));
  CHECK(faults({TraceMap::Kind::cyclic, {}}, 4, 2).empty());
  CHECK(contains(faults({TraceMap::Kind::cyclic, {}}, 8, 2), "experts: the trace has counts of 4 experts"));
  CHECK(contains(faults({TraceMap::Kind::cyclic, {}}, 4, 3), "16 copies are no multiple of the model's 3"));
  CHECK(faults({TraceMap::Kind::listed, {7, 7}}, 4, 2).empty());
  CHECK(contains(faults({TraceMap::Kind::listed, {7}}, 4, 2),
                 "map of layers: the map has 1 layer, the model 2 MoE layers"));
  CHECK(contains(faults({TraceMap::Kind::listed, {7, 8}}, 4, 2), "the map names layer 8, the trace has {0, 7, 15}"));
}

TEST_CASE("counts that state their experts a token are compared with the model's") {
  CountTrace counts = parse_counts_csv(kThreeLayers, "c.csv");
  counts.top_k = 2;
  const std::vector<int> ids = {0, 7, 15};
  CHECK(trace_faults(counts, 4, 2, ids).empty());
  const auto faults = trace_faults(counts, 4, 1, ids);
  REQUIRE(faults.size() == 1);
  CHECK(faults[0].second == "the trace has 2 experts a token, the model 1");
}
