#include "report/format.h"

#include <doctest/doctest.h>

#include "report/evaluation.h"

namespace moeplan::report {
using namespace testing;

TEST_CASE("percentages have a decimal below ten") {
  CHECK(percent(0.045) == "4.5 %");
  CHECK(percent(0.0994) == "9.9 %");
  CHECK(percent(0.0996) == "10 %");
  CHECK(percent(-0.02) == "-2.0 %");
}

TEST_CASE("a change against nothing is not a number") {
  CHECK(percent_change(3.0, 2.0) == "+50 %");
  CHECK(percent_change(1.98, 2.0) == "-1.0 %");
  CHECK(percent_change(1.0, 0.0) == "-");
}

TEST_CASE("absolute paths are cut to their last part, other slashes stay") {
  CHECK(without_absolute_paths("trace /a/b/law (5 tokens/s)") == "trace law (5 tokens/s)");
  CHECK(without_absolute_paths("/x/y.yaml:3:4: bad") == "y.yaml:3:4: bad");
  CHECK(without_absolute_paths("'/x/y' 64 / 2") == "'y' 64 / 2");
  CHECK(without_absolute_paths("traces/law") == "traces/law");
  CHECK(without_absolute_paths("--set routing.trace=/a/b") == "--set routing.trace=b");
  CHECK(without_absolute_paths("/a/b/") == "b/");
  CHECK(without_absolute_paths("trace /a/c.json#olmoe/c4 (3)") == "trace c.json#olmoe/c4 (3)");
  CHECK(without_absolute_paths("/a/x#y/c.csv") == "c.csv");
}

TEST_CASE("the verdict sentence says what is left, or what is missing") {
  search::Evaluation e = small_evaluation();
  CHECK(verdict_sentence(e) == "rank 2 peaks at 18.00 GiB of 36.00 GiB usable (50 % headroom)");
  e.fit = search::judge(32 * kGiB, 32 * kGiB, 64 * kGiB);
  CHECK(verdict_sentence(e) == "rank 2 peaks at 32.00 GiB of 32.00 GiB usable (0.0 % headroom)");
  e.fit = search::judge(33 * kGiB, 32 * kGiB, 64 * kGiB);
  CHECK(verdict_sentence(e) == "rank 2 peaks at 33.00 GiB, 1.00 GiB above the 32.00 GiB usable");
}

TEST_CASE("a verdict by the closed form names it") {
  auto scenario = small_scenario();
  scenario->memory.accounting = scenario::Accounting::closed_form;
  CHECK(holds(verdict_sentence(small_evaluation(scenario)), "by the closed form (memory.accounting)"));
}

TEST_CASE("the place of a peak names what is known") {
  memory::Peak peak = rank_memory(0, 12).peak;
  CHECK(peak_place(peak) == "steady iteration, backward of layer 0, microbatch 1, at expert down");
  peak = {};
  CHECK(peak_place(peak) == "load");
}

}  // namespace moeplan::report
