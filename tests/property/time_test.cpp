#include <algorithm>
#include <array>
#include <cmath>

#include "cases.h"
#include "engine/plan_source.h"
#include "engine/step.h"
#include "streams.h"

// Time: bounds from below, sums, and what a faster part does.
using namespace moeplan;
using moeplan::property::Case;

TEST_CASE("a step takes no less than any rank's busiest stream and longest chain, and its parts add up to it") {
  property::for_all("makespan", 60, [] {
    const Case c = *property::any_case();
    const plan::Plan plan = c.plan();
    property::StreamTimes streams(plan);
    const engine::RunResult run = engine::run_max_plus(streams);
    const engine::StepTime step = engine::run_step(plan);
    RC_ASSERT(step.step_s == static_cast<double>(run.makespan_ps) * 1e-12);
    for (std::int64_t rank = 0; rank < c.gpus(); ++rank) {
      const auto& of_rank = step.ranks[static_cast<std::size_t>(rank)];
      for (const std::int64_t busy_ps : streams.busy_ps(rank)) RC_ASSERT(busy_ps <= run.makespan_ps);
      RC_ASSERT(streams.chain_ps(rank) <= run.makespan_ps);
      RC_ASSERT(of_rank.busy_s <= step.step_s);
      RC_ASSERT(std::abs(of_rank.parts.total() - step.step_s) <= 1e-9 * step.step_s);
    }
    RC_ASSERT(std::abs(step.mean.total() - step.step_s) <= 1e-9 * step.step_s);
  });
}

TEST_CASE("the event queue and the recurrence agree on every plan") {
  property::for_all("engines", 40, [] {
    const Case c = *property::any_case();
    const plan::Plan plan = c.plan();
    engine::PlanSource a(plan), b(plan);
    const engine::RunResult fast = engine::run_max_plus(a), slow = engine::run_events(b);
    RC_ASSERT(fast.finish_ps == slow.finish_ps);
    RC_ASSERT(fast.ops == slow.ops);
  });
}

// The decisions of a plan stay as they are: only prices change.
TEST_CASE("a faster part makes no step slower") {
  struct Part {
    const char* name;
    void (*faster)(topology::HardwareProfile&, double);
  };
  static constexpr std::array<Part, 9> kParts = {{
      {"gemm.peak", [](auto& hw, double f) { hw.gemm.peak.value *= f; }},
      {"gemm.bandwidth", [](auto& hw, double f) { hw.gemm.bandwidth.value *= f; }},
      {"grouped_gemm.efficiency", [](auto& hw, double f) { hw.grouped_gemm.efficiency.value *= f; }},
      {"attention.peak_hd64", [](auto& hw, double f) { hw.attention.peak_hd64.value *= f; }},
      {"memory_bound.bandwidth", [](auto& hw, double f) { hw.memory_bound.bandwidth.value *= f; }},
      {"network.scale_up_bandwidth", [](auto& hw, double f) { hw.network.scale_up_bandwidth.value *= f; }},
      {"network.nic_bandwidth", [](auto& hw, double f) { hw.network.nic_bandwidth.value *= f; }},
      {"dispatch.cap", [](auto& hw, double f) { hw.dispatch.cap->value *= f; }},
      {"host.launch", [](auto& hw, double f) { hw.host.launch.value /= f; }},
  }};
  property::for_all("faster", 120, [] {
    const Case c = *property::any_case();
    const Part& part = kParts[*rc::gen::inRange<std::size_t>(0, kParts.size())];
    const double factor = *rc::gen::element(1.25, 2.0, 8.0);
    RC_LOG() << part.name << " x " << factor << "\n";
    if (c.policies.find("greedy") != std::string::npos) return;  // places experts by price
    // Hosts of two GPUs, so that small groups reach the network.
    auto slow = std::make_shared<scenario::Scenario>(*c.make());
    slow->hardware.network.gpus_per_node.value = slow->hardware.network.nics_per_node.value = 2;
    auto fast = std::make_shared<scenario::Scenario>(*slow);
    part.faster(fast->hardware, factor);
    const double before = engine::run_step(plan::make_plan(slow, 0, 1)).step_s;
    RC_ASSERT(engine::run_step(plan::make_plan(fast, 0, 1)).step_s <= before);
  });
}
