#include "search/intervals.h"

#include <doctest/doctest.h>

#include <cmath>

using namespace moeplan;
using namespace moeplan::search;

namespace {

ValidationRow row(const std::string& group, double measured, bool judges = true) {
  ValidationRow result;
  result.run.id = group;
  result.run.group = group;
  result.status = runs::RunStatus::ok;
  result.judges_time = judges;
  result.step_time_s = {measured, 1.0};
  result.step_range_s = Range{0.9, 1.2};
  result.step_deviation = 0.02;
  return result;
}

}  // namespace

TEST_CASE("groups tell and are judged in turn, and the ends of an interval are inside") {
  Validation validation;
  validation.rows = {row("a", 1.1),        row("b", 1.2),   // judged: at the upper end
                     row("c", 1.3),        row("d", 0.9),   // at the lower end
                     row("e", 1.0),        row("f", 1.21),  // beyond
                     row("g", 9.0, false),                  // in no summary: neither
                     row("h", 1.15),       row("i", 0.89)};
  add_intervals(validation);
  const Intervals& intervals = validation.step_intervals;
  CHECK(intervals.fitted == 4);
  CHECK(intervals.kept_out == 4);
  CHECK(intervals.inside == 2);
  CHECK(intervals.deviation == 0.02);
  // Of 1.0, 1.1, 1.15, 1.3: nearest ranks of 50 % (2nd), 5 % (1st), 95 % (4th); 1.645 * 0.02 = 0.0329 is explained.
  CHECK(intervals.form.middle == doctest::Approx(std::log(1.1)));
  CHECK(intervals.form.below == doctest::Approx(std::sqrt(std::pow(std::log(1.1), 2) - 0.0329 * 0.0329)));
  CHECK(intervals.form.above == doctest::Approx(std::sqrt(std::pow(std::log(1.3 / 1.1), 2) - 0.0329 * 0.0329)));
  CHECK(validation.allocated_intervals.fitted == 0);  // no row has one
}
