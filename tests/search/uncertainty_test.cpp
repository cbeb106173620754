#include "search/uncertainty.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "plan/plan.h"
#include "search/evaluate.h"
#include "support/scenarios.h"

using namespace moeplan;
using moeplan::test::Small;

TEST_CASE("a range spans the quantiles of runs, in units of what the cost models' spreads make of the step") {
  // 2 e^(0.04 x -2) = 2 e^-0.08, 2 e^(0.04 x 2.5) = 2 e^0.1
  const search::Range range = search::range_of(2.0, 0.04, {-2, 2.5}, search::kDeviations);
  CHECK(range.low == doctest::Approx(2.0 * std::exp(-0.08)));
  CHECK(range.high == doctest::Approx(2.0 * std::exp(0.1)));
  // Never narrower than the spreads alone: 2 e^(0.04 x -1.645).
  CHECK(search::range_of(2.0, 0.04, {0.5, 2.5}, search::kDeviations).low == doctest::Approx(2.0 * std::exp(-0.0658)));
  // Without spreads, quantiles on one side reach to the prediction.
  CHECK(search::range_of(2.0, 1, {0.5, 2.5}, 0).low == 2.0);
  CHECK(search::range_of(2.0, 1, {-2.5, -0.5}, 0).high == 2.0);
}

TEST_CASE("the form error of runs leaves one in twenty of them, and of one more, beyond each end") {
  std::vector<double> scores;
  for (int i = 0; i < 38; ++i) scores.push_back(i);
  CHECK(search::form_of(scores).low == doctest::Approx(0.95));  // 39 / 20 = 1.95: between the 1st and the 2nd
  CHECK(search::form_of(scores).high == doctest::Approx(36.05));
  scores.push_back(38);  // 40 / 20: the 2nd, and the 2nd from the end
  CHECK(search::form_of(scores).low == 1);
  CHECK(search::form_of(scores).high == 37);
  CHECK(search::form_of({1.0, 2.0}).high == 2);  // 3 / 20: below the first, so the first and the last
  CHECK(search::form_of({3.0}).low == 3);
  CHECK(search::form_of({}).high == 0);
}

TEST_CASE("a spread comes from the profile, else an untested one is assumed with a reason") {
  topology::HardwareProfile profile = Small{}.make()->hardware;
  const auto spread = [&](const std::string& family) {
    for (const auto& one : search::spreads_of(profile))
      if (one.family == family) return one;
    FAIL("no such family");
    return search::FamilyError{};
  };
  CHECK(spread("gemm").spread == topology::value_at(profile, "gemm.spread")->value);
  CHECK(spread("gemm").evidence == topology::Evidence::published);
  profile.gemm.spread.reset();
  CHECK(spread("gemm").spread == 0.25);
  CHECK(spread("gemm").evidence == topology::Evidence::assumed);
  CHECK(!spread("gemm").source.empty());
}

TEST_CASE("families add up as independent, each by its own run of the step") {
  const auto scenario = Small{}.make();
  const auto e = search::evaluate(scenario, 1, {}, true);
  const search::Uncertainty u = search::uncertainty(e, 2);
  REQUIRE(u.rerun);
  REQUIRE(!u.families.empty());
  double squares = 0;
  for (const auto& family : u.families) squares += family.step_change * family.step_change;
  CHECK(u.deviation == doctest::Approx(std::sqrt(squares)));
  // The first family by hand: its times longer by its spread, everything planned anew.
  auto longer = std::make_shared<scenario::Scenario>(*scenario);
  const auto host =
      std::find_if(u.families.begin(), u.families.end(), [](const auto& family) { return family.family == "host"; });
  REQUIRE(host != u.families.end());
  for (auto* value : {&longer->hardware.host.launch, &longer->hardware.host.operation, &longer->hardware.host.sync})
    value->value *= 1 + host->spread;
  CHECK(host->step_change == doctest::Approx(std::log(search::evaluate(longer, 1).step_s / e.step_s)).epsilon(1e-6));
  CHECK(u.step_s.low <= e.step_s);
  CHECK(u.step_s.high >= e.step_s);
  CHECK(u.peak_allocated_bytes.low <= static_cast<double>(e.worst.peak.allocated_bytes));
}

TEST_CASE("a step of too many operations is weighed by its parts, and says so") {
  auto e = search::evaluate(Small{}.make(), 1);
  e.ops = search::kMostRerunOps + 1;  // no plan is needed then
  const search::Uncertainty u = search::uncertainty(e, 1);
  CHECK(!u.rerun);
  CHECK(u.deviation > 0);
}
