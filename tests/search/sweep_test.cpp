#include "search/sweep.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace moeplan;

namespace {
const std::string kScenario = MOEPLAN_SOURCE_DIR "/tests/data/search/small.yaml";
scenario::Options options() {
  scenario::Options o;
  o.data_dirs = {MOEPLAN_SOURCE_DIR "/tests/data"};
  return o;
}
}  // namespace

TEST_CASE("values are separated by commas outside brackets") {
  const auto axis = search::parse_axis("memory.recompute_modules=[moe, mlp],[moe_act]");
  CHECK(axis.values == std::vector<std::string>{"[moe, mlp]", "[moe_act]"});
  CHECK(search::parse_axis("ep=1,2, 4").values == std::vector<std::string>{"1", "2", "4"});
  CHECK_THROWS_AS(search::parse_axis("ep"), base::Error);
  CHECK_THROWS_AS(search::parse_axis("ep=1,,2"), base::Error);
  CHECK_THROWS_AS(search::parse_axis("ep=1,2,1"), base::Error);
  CHECK_THROWS_AS(search::parse_axis("epp=1,2"), base::Error);
}

TEST_CASE("the grid comes in order, last axis fastest, whatever the threads: refused combinations say why") {
  const std::vector<search::Axis> axes = {search::parse_axis("ep=1,2,3"), search::parse_axis("mbs=1,2")};
  for (int threads : {1, 3}) {
    std::vector<std::vector<std::string>> order;
    const auto rows = search::run_sweep(
        kScenario, options(), axes, [&](const search::SweepRow& row) { order.push_back(row.values); }, threads);
    CHECK(order == std::vector<std::vector<std::string>>{
                       {"1", "1"}, {"1", "2"}, {"2", "1"}, {"2", "2"}, {"3", "1"}, {"3", "2"}});
    CHECK(rows[0].evaluation.has_value());
    CHECK(rows[3].evaluation.has_value());
    CHECK_FALSE(rows[4].evaluation.has_value());  // 3 divides neither 8 experts nor 4 GPUs
    CHECK(rows[4].error.find("expert_model_parallel_size") != std::string::npos);
    CHECK(rows[1].evaluation->worst.peak.allocated_bytes > rows[0].evaluation->worst.peak.allocated_bytes);
  }
}

TEST_CASE("a key varied twice under two names is refused before any row") {
  const std::vector<search::Axis> axes = {search::parse_axis("ep=1,2"), search::parse_axis("EP=4")};
  CHECK_THROWS_AS(search::run_sweep(
                      kScenario, options(), axes, [](const search::SweepRow&) { FAIL("a row was run"); }, 1),
                  base::Error);
}

TEST_CASE("a scenario that cannot be read is one fault") {
  const std::vector<search::Axis> axes = {search::parse_axis("ep=1,2")};
  CHECK_THROWS_AS(search::run_sweep(
                      "no-such.yaml", options(), axes, [](const search::SweepRow&) { FAIL("a row was run"); }, 1),
                  base::Error);
}
