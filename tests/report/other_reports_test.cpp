#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "report/evaluation.h"
#include "report/notes.h"
#include "report/report.h"

namespace moeplan::report {
using namespace testing;
using nlohmann::json;

namespace {

search::ChunkSweep small_chunks() {
  search::ChunkSweep sweep;
  sweep.curve = {
      {"none", 0, small_evaluation()}, {"fixed", 2, small_evaluation()}, {"adaptive", 2, small_evaluation()}};
  sweep.curve[1].evaluation.step_s = 2.5;
  sweep.curve[2].evaluation.stages[0].s_max_rows = 900;
  sweep.chosen = {{0, {{1, 3}, {2, 1}}}};
  sweep.recommendation = {"adaptive", 2, {1, 2, 4, 8}, "because of the numbers", true};
  return sweep;
}

}  // namespace

TEST_CASE("chunks shows the curve, the budget, the grid and the reason") {
  const std::string text = chunks_text(small_chunks());
  CHECK(text.starts_with("RECOMMENDED  because of the numbers\n"));
  CHECK(holds(text, "2.500 s    +25 %"));  // against 2 s
  CHECK(holds(text, "-25 %"));             // closed form 6 GiB against 8
  CHECK(holds(text, "layers down, microbatches 0 to 1 across\n      0  1 2\n"));
  CHECK(widest_line(text) <= 110);
}

TEST_CASE("a recommendation that does not fit opens with OOM") {
  search::ChunkSweep sweep = small_chunks();
  sweep.recommendation.fits = false;
  CHECK(chunks_text(sweep).starts_with("OOM  "));
}

TEST_CASE("a grid wider than the page becomes counts by layer") {
  search::ChunkSweep sweep = small_chunks();
  // The grid takes 2 + 5 + 1 columns and 2 a microbatch: 51 microbatches make 110, 52 make 112.
  sweep.curve[2].evaluation.routing.layers[0].chunks_by_microbatch.assign(51, 1);
  CHECK(holds(chunks_text(sweep), "microbatches 0 to 50 across"));
  CHECK(widest_line(chunks_text(sweep)) == 110);
  sweep.curve[2].evaluation.routing.layers[0].chunks_by_microbatch.assign(52, 1);
  CHECK(holds(chunks_text(sweep), "      0: 1 x 3, 2 x 1\n"));
}

TEST_CASE("one count everywhere is one line") {
  search::ChunkSweep sweep = small_chunks();
  sweep.chosen = {{0, {{4, 2}}}, {1, {{4, 2}}}};
  CHECK(holds(chunks_text(sweep), "The adaptive rule takes 4 chunks in every layer and microbatch"));
}

TEST_CASE("the JSON of chunks holds its minimum") {
  const json j = json::parse(chunks_json(small_chunks()));
  CHECK(j["schema"] == "moeplan.chunks/1");
  CHECK(j["curve"].size() == 3);
  CHECK(j["curve"][0]["chunks"].is_null());
  CHECK(j["curve"][1]["rule"] == "fixed");
  CHECK(j["curve"][1]["chunks"] == 2);
  CHECK(j["curve"][1]["peak_allocated_bytes"] == 15 * kGiB);
  CHECK(j["curve"][1]["routed_activation_bytes"] == 7 * kGiB);  // of rank 2, the largest
  CHECK(j["curve"][1]["closed_form_activation_bytes"] == 6 * kGiB);
  CHECK(j["curve"][1]["step_time_s"] == 2.5);
  CHECK(j["curve"][1]["fits"] == true);
  CHECK(j["stages"][0]["s_max_rows"] == 900.0);
  CHECK(j["chosen"][0]["times"] == json({{"1", 3}, {"2", 1}}));
  CHECK(j["recommendation"]["bins"] == json({1, 2, 4, 8}));
  CHECK(j["routing"]["source"] == "trace law: 50 tokens");
}

TEST_CASE("compare names the fastest that fits and counts changes from the first") {
  std::vector<search::PolicyResult> results = {{"none", small_evaluation()}, {"lrmoe", small_evaluation()}};
  results[0].evaluation.fit = search::judge(33 * kGiB, 32 * kGiB, 64 * kGiB);
  results[1].evaluation.step_s = 1.5;
  CHECK_FALSE(holds(compare_text(results), "own formulation"));
  results[1].evaluation.routing.selects = true;
  results[1].evaluation.routing.retained_row_share = 0.8;
  const std::string text = compare_text(results);
  CHECK(text.starts_with("FITS  1 of 2 sets of policies fit; fastest: lrmoe with 1.500 s a step\n"));
  CHECK(holds(text, "-25 %"));
  CHECK(holds(text, "80.00 %"));
  CHECK(holds(text, "LRMoE is moeplan's own formulation (see docs/models.md)"));
  CHECK(widest_line(text) <= 110);
  results[1].evaluation.fit = results[0].evaluation.fit;
  CHECK(compare_text(results).starts_with("OOM  none of 2"));
}

TEST_CASE("the JSON of compare holds its minimum") {
  const json j = json::parse(compare_json({{"none", small_evaluation()}, {"memfine", small_evaluation()}}));
  CHECK(j["schema"] == "moeplan.compare/1");
  CHECK(j["baseline"] == "none");
  const json& policy = j["policies"][1];
  CHECK(policy["name"] == "memfine");
  CHECK(policy["step_time_s"]["p99"] == 2.0);
  CHECK(policy["exposed_ep_s"] == 0.6);
  CHECK(policy["retained_row_share"] == 1.0);
  CHECK(policy["overflow_probability"] == 0.0);
  const std::string assumptions = j["assumptions"].dump();
  CHECK(policy["dropped_share"] == 0.0);
  CHECK(policy["moved_bytes"] == 0.0);
  CHECK(policy["peak_reserved_bytes"] == 17 * kGiB);
  CHECK(holds(assumptions, "uncertainty.peak_allocated_bytes"));
}

TEST_CASE("rows of a sweep line up under their header, refused ones say why") {
  const std::vector<search::Axis> axes = {{"ep", {"8", "16"}}, {"a.long.key", {"x", "y"}}};
  const std::string header = sweep_header(axes);
  const std::string row = sweep_row(axes, {{"16", "x"}, small_evaluation(), ""});
  CHECK(header.starts_with("ep  a.long.key  fits "));
  CHECK(row.starts_with("16           x  FITS "));
  CHECK(header.find("MFU") + 3 == row.find("20 %") + 4);  // right edges of the last column
  const std::string refused = sweep_row(axes, {{"8", "y"}, std::nullopt, "/tmp/a.yaml:1:2: no\n  hint: yes"});
  CHECK(refused == " 8           y  refused: a.yaml:1:2: no ...\n");
}

TEST_CASE("the JSON of a sweep tells rows, errors and whether it is complete") {
  const std::vector<search::Axis> axes = {{"ep", {"8", "16"}}};
  const std::vector<search::SweepRow> rows = {{{"8"}, small_evaluation(), ""}, {{"16"}, std::nullopt, "cannot\n  be"}};
  const json j = json::parse(sweep_json(axes, rows, false));
  CHECK(j["schema"] == "moeplan.sweep/1");
  CHECK(j["complete"] == false);
  CHECK(j["keys"] == json({"ep"}));
  CHECK(j["rows"][0]["values"] == json({"8"}));
  CHECK(j["rows"][0]["verdict"] == "FITS");
  CHECK(j["rows"][0]["peak_allocated_bytes"] == 15 * kGiB);
  CHECK(j["rows"][0]["error"].is_null());
  CHECK(j["rows"][1]["step_time_s"].is_null());
  CHECK(j["rows"][1]["error"] == "cannot\n  be");
  CHECK(json::parse(sweep_json(axes, rows, true))["complete"] == true);
}

TEST_CASE("warnings name the families of a profile that rest on assumed values") {
  auto scenario = small_scenario();  // a profile whose values are all assumed: seven families
  CHECK(evidence_warnings(scenario->hardware).size() == 7);
  search::Evaluation evaluation = small_evaluation(scenario);
  CHECK(warnings_of(evaluation).front() == "a setting without effect");
  CHECK(short_warnings_of(evaluation).size() == 2);
  evaluation.warnings = {"the replay does not fit"};  // those of the evaluation come first
  CHECK(warnings_of(evaluation).front() == "the replay does not fit");
  // With measured host values the family "host" is no longer named.
  auto& host = scenario->hardware.host;
  host.launch.evidence = host.operation.evidence = host.sync.evidence = topology::Evidence::measured;
  CHECK(evidence_warnings(scenario->hardware).size() == 6);
}

}  // namespace moeplan::report
