#include "search/intervals.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace moeplan;
using namespace moeplan::search;

namespace {

// The `number`-th group that tells, or that judges.
std::string group(bool tells, int number) {
  for (int i = 0;; ++i) {
    const std::string name = "group " + std::to_string(i);
    if (tells_form(name) == tells && number-- == 0) return name;
  }
}

ValidationRow row(const std::string& name, double measured, bool judges = true) {
  ValidationRow result;
  result.run.id = name;
  result.run.group = name;
  result.status = runs::RunStatus::ok;
  result.judges_time = judges;
  result.step_time_s = {measured, 1.0};
  result.step_range_s = Range{0.9, 1.2};
  result.step_deviation = 0.02;
  return result;
}

}  // namespace

TEST_CASE("groups tell or are judged, and the ends of an interval are inside") {
  Validation validation;
  validation.rows = {row(group(true, 0), 1.1),        row(group(true, 1), 1.3),
                     row(group(true, 2), 1.0),        row(group(false, 0), 1.2),    // at the upper end
                     row(group(false, 1), 0.9),                                     // at the lower end
                     row(group(false, 2), 1.201),     row(group(false, 3), 0.899),  // beyond
                     row(group(false, 4), 1.0, false)};                             // in no summary
  add_intervals(validation);
  const Intervals& intervals = validation.step_intervals;
  CHECK(intervals.fitted == 3);
  CHECK(intervals.kept_out == 4);
  CHECK(intervals.inside == 2);
  CHECK(intervals.width == doctest::Approx(1.2 / 0.9));
  // Nearest ranks of 5 % and 95 % of three: the 1st and the 3rd, in units of 0.02.
  CHECK(intervals.form.low == 0);
  CHECK(intervals.form.high == doctest::Approx(std::log(1.3) / 0.02));
  CHECK(validation.allocated_intervals.fitted == 0);  // no row has one
}

TEST_CASE("each framework has runs of its own that tell") {
  Validation validation;
  validation.rows = {row(group(true, 0), 1.1), row(group(true, 1), 1.3), row(group(false, 0), 1.0)};
  validation.rows[1].simulated_as = scenario::Framework::torchtitan;
  add_intervals(validation);
  REQUIRE(validation.step_intervals_by_framework.size() == 2);
  const auto& [megatron, of_megatron] = validation.step_intervals_by_framework[0];
  CHECK(megatron == "megatron");
  CHECK(of_megatron.fitted == 1);
  CHECK(of_megatron.kept_out == 1);
  CHECK(of_megatron.form.high == doctest::Approx(std::log(1.1) / 0.02));
  CHECK(validation.step_intervals_by_framework[1].second.form.low == doctest::Approx(std::log(1.3) / 0.02));
  CHECK(validation.step_intervals.fitted == 2);
}

TEST_CASE("rows that leave settings open tell nothing, and are judged apart, all of them") {
  Validation validation;
  validation.rows = {row(group(true, 0), 1.1), row(group(true, 1), 1.3), row(group(false, 0), 1.0),
                     row(group(true, 2), 3.0), row(group(false, 1), 1.0)};
  validation.rows[0].run.grade = "A";
  validation.rows[3].run.grade = validation.rows[4].run.grade = "B";
  add_intervals(validation);
  CHECK(validation.step_intervals.fitted == 2);
  CHECK(validation.step_intervals.kept_out == 1);
  CHECK(validation.step_intervals_not_all_stated.fitted == 0);
  CHECK(validation.step_intervals_not_all_stated.kept_out == 2);
  CHECK(validation.step_intervals_not_all_stated.inside == 1);  // 1.0; 3.0 lies beyond
}

TEST_CASE("about half of many groups tell what runs are off") {
  int tell = 0;
  for (int i = 0; i < 1000; ++i) tell += tells_form("group " + std::to_string(i)) ? 1 : 0;
  CHECK(tell > 450);
  CHECK(tell < 550);
}
