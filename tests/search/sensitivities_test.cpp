#include "search/sensitivities.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "engine/step.h"
#include "search/evaluate.h"
#include "support/scenarios.h"

using namespace moeplan;
using moeplan::test::Small;

namespace {

const search::Sensitivity& of(const std::vector<search::Sensitivity>& all, const std::string& key) {
  const auto found = std::find_if(all.begin(), all.end(), [&](const auto& one) { return one.key == key; });
  REQUIRE(found != all.end());
  return *found;
}

}  // namespace

TEST_CASE("a sensitivity is what a run with that value of the profile 1 % higher changes") {
  const auto base = test::scenario_file("quickstart.yaml");
  const auto plan = plan::make_plan(base, 0, 1);
  const auto all = search::sensitivities(plan, 2);
  const double step_s = engine::run_step(plan).step_s;
  // h100-sxm: nic_bandwidth 50 GB/s, gemm.peak 841 TFLOP/s; 1 % more by hand.
  const std::vector<std::array<std::string, 2>> by_hand = {
      {"network.nic_bandwidth", "50.5 GB/s"}, {"gemm.peak", "849.41 TFLOP/s"}, {"host.launch", ""}};
  for (const auto& [key, value] : by_hand) {
    std::string text = value;
    if (text.empty()) text = std::to_string(of(all, key).value * 1.01 * 1e9) + " ns";
    CAPTURE(key);
    const auto changed = test::scenario_file("quickstart.yaml", {{"hardware." + key, text}});
    const double changed_s = search::evaluate(changed, 1).step_s;
    CHECK(of(all, key).step_change_per_percent == doctest::Approx((changed_s / step_s - 1) * 100).epsilon(1e-6));
    CHECK(of(all, key).peak_unaffected);
  }
  CHECK(of(all, "gemm.peak").step_change_per_percent < 0);  // a rate
}

TEST_CASE("sensitivities are sorted by size, the same on any number of threads, and leave sizes and counts out") {
  const auto plan = plan::make_plan(Small{}.make(), 0, 1);
  const auto one = search::sensitivities(plan, 1), three = search::sensitivities(plan, 3);
  REQUIRE(one.size() == three.size());
  for (std::size_t i = 0; i < one.size(); ++i) {
    CHECK(one[i].key == three[i].key);
    CHECK(one[i].step_change_per_percent == three[i].step_change_per_percent);
    if (i > 0) CHECK(std::abs(one[i].step_change_per_percent) <= std::abs(one[i - 1].step_change_per_percent));
    for (const char* out : {"device.peak_bf16", "network.gpus_per_node", "gemm.overlap_exponent", "gemm.spread",
                            "overheads.context", "grouped_gemm.tile_rows"})
      CHECK(one[i].key != out);
  }
}

TEST_CASE("a plan priced again under the same profile is the same step") {
  const auto plan = plan::make_plan(Small{}.make(), 0, 1);
  CHECK(search::step_under(plan, [](topology::HardwareProfile&) {}) == engine::run_step(plan).step_s);
}

TEST_CASE("all cost models twice as slow make a step twice as long") {
  // Every duration is priced by one of the seven families; picoseconds are rounded.
  Small small;
  small.tp = 2;
  small.pp = 2;
  small.gpus = 8;
  const auto plan = plan::make_plan(small.make(), 0, 1);
  const double twice =
      search::step_under(plan, [](topology::HardwareProfile& profile) { profile.time_scale = {2, 2, 2, 2, 2, 2, 2}; });
  CHECK(twice == doctest::Approx(2 * engine::run_step(plan).step_s).epsilon(1e-7));
}
