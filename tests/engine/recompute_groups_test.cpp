#include "support/recompute_groups.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "engine/step.h"
#include "plan/plan.h"

using namespace moeplan;
using moeplan::test::dense;
using moeplan::test::full;

TEST_CASE("groups of one layer are what they were, and groups cost the time of one recomputation") {
  const auto step = [](const std::string& memory) {
    return engine::run_step(plan::make_plan(dense(6, memory), 0, 1)).step_s;
  };
  CHECK(step("{ recompute_granularity: full }") == step(full(1)));
  CHECK(step(full(2)) == doctest::Approx(step(full(1))).epsilon(0.01));
  CHECK(step(full(2)) > step("{}"));
}

TEST_CASE("op clocks follow the program: the host's never go back, an op starts once it was issued") {
  const auto plan = plan::make_plan(dense(6, full(2)), 0, 1);
  const auto clocks = engine::op_clocks(plan, 0);
  const auto& visits = plan.program_of(0).visits;
  REQUIRE(clocks.size() == visits.size());
  double issued_s = 0, last_s = 0;
  for (std::size_t v = 0; v < visits.size(); ++v) {
    const auto end = std::min<std::size_t>(visits[v].end_op, clocks[v].size());
    for (std::size_t o = visits[v].first_op; o < end; ++o) {
      CHECK(clocks[v][o].issued_s >= issued_s);
      CHECK(clocks[v][o].end_s >= clocks[v][o].start_s);
      issued_s = clocks[v][o].issued_s;
      last_s = std::max(last_s, clocks[v][o].end_s);
    }
  }
  CHECK(last_s <= engine::run_step(plan).step_s);
}
