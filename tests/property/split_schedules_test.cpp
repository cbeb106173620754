#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "cases.h"
#include "engine/plan_source.h"
#include "engine/step.h"
#include "memory/replay.h"

// Zero-bubble schedules and DualPipe, on whole plans.
using namespace moeplan;
using moeplan::property::Case;

namespace {

// Seconds of ops that take the same whenever they run, over all visits of all programs.
double fixed_seconds(const plan::Plan& plan) {
  double sum = 0;
  for (const plan::Program& program : plan.programs)
    for (const plan::Visit& visit : program.visits) {
      const plan::Block& block = plan.blocks[static_cast<std::size_t>(visit.block)];
      const auto& ops = plan::ops_of(block, visit.direction);
      const std::size_t end = std::min<std::size_t>(visit.end_op, ops.size());
      for (std::size_t o = visit.first_op; o < end; ++o)
        if (block.name != "optimizer" && ops[o].work == plan::Work::fixed) sum += ops[o].seconds;
    }
  return sum;
}

}  // namespace

TEST_CASE("weight gradients apart: both evaluations agree, no rank waits for ever, parts add up to the step") {
  property::for_all("split schedules in time", 60, [] {
    const Case c = *property::split_case();
    const plan::Plan plan = c.plan();
    engine::PlanSource a(plan), b(plan);
    const engine::RunResult fast = engine::run_max_plus(a), slow = engine::run_events(b);
    RC_ASSERT(fast.finish_ps == slow.finish_ps);
    const engine::StepTime step = engine::run_step(plan);
    for (const auto& rank : step.ranks) {
      RC_ASSERT(std::abs(rank.parts.total() - step.step_s) <= 1e-9 * step.step_s);
      RC_ASSERT(rank.busy_s <= step.step_s);
    }
  });
}

// The replay checks each op: nothing is allocated twice, freed twice, or left over.
TEST_CASE("weight gradients apart: memory is sound on every rank") {
  property::for_all("split schedules in memory", 60, [] {
    const Case c = *property::split_case();
    const plan::Plan plan = c.plan();
    for (std::int64_t rank = 0; rank < c.gpus(); ++rank) {
      const memory::RankMemory memory = memory::replay(plan, rank);
      RC_ASSERT(memory.peak.allocated_bytes >= memory.static_bytes);
    }
  });
}

TEST_CASE("weight gradients apart: the same work as whole backwards") {
  property::for_all("split schedules' work", 40, [] {
    Case c = *property::split_case();
    c.policies = "{}";  // chunk counts follow the memory of a stage
    if (c.schedule == "dualpipe") c.sharding = "ddp";
    const plan::Plan split = c.plan();
    Case whole = c;
    whole.schedule = "1f1b";
    const double expected = fixed_seconds(whole.plan()), got = fixed_seconds(split);
    RC_ASSERT(std::abs(got - expected) <= 1e-9 * expected);
  });
}
