#include "search/uncertainty.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>

#include "plan/plan.h"
#include "search/evaluate.h"
#include "support/scenarios.h"

using namespace moeplan;
using moeplan::test::Small;

TEST_CASE("a range joins models and form in quadrature around the form's median") {
  // w = hypot(1.645 * 0.04, 0.05) = hypot(0.0658, 0.05) = 0.08264; above: hypot(0.0658, 0.10) = 0.11971
  const search::Range range = search::range_of(2.0, 0.04, {0.02, 0.05, 0.10});
  CHECK(range.low == doctest::Approx(2.0 * std::exp(0.02 - 0.082644)).epsilon(1e-5));
  CHECK(range.high == doctest::Approx(2.0 * std::exp(0.02 + 0.119705)).epsilon(1e-5));
  // A median beyond the width would leave the prediction outside: the range reaches to it.
  CHECK(search::range_of(2.0, 0, {0.3, 0.1, 0.1}).low == 2.0);
  CHECK(search::range_of(2.0, 0, {-0.3, 0.1, 0.1}).high == 2.0);
}

TEST_CASE("the form error of runs is their quantiles less what the models explain") {
  // Twenty runs, logs -0.10, -0.09, ..., 0.09; nearest ranks of 5 %, 50 % and 95 %: 1st, 10th and 19th.
  std::vector<double> logs;
  for (int i = 0; i < 20; ++i) logs.push_back(-0.10 + 0.01 * i);
  const search::FormError all = search::form_of(logs, 0);
  CHECK(all.middle == doctest::Approx(-0.01));
  CHECK(all.below == doctest::Approx(0.09));
  CHECK(all.above == doctest::Approx(0.09));
  // 1.645 * 0.04 = 0.0658; sqrt(0.09^2 - 0.0658^2) = 0.06140
  CHECK(search::form_of(logs, 0.04).below == doctest::Approx(0.0614).epsilon(1e-3));
  CHECK(search::form_of(logs, 0.06).above == 0);  // 0.0987 explains more than there is
  CHECK(search::form_of({}, 0).above == 0);
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
