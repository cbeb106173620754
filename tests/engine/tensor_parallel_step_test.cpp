#include <doctest/doctest.h>

#include "engine/plan_source.h"
#include "engine/step.h"
#include "support/tensor_parallel.h"

using namespace moeplan;
using moeplan::test::tensor_parallel;

TEST_CASE("user buffers: both shorten the exposed exchange, which pieces in the product's shadow do not show") {
  const auto exposed_s = [](bool overlap) {
    auto scenario = tensor_parallel(2, overlap);
    scenario->hardware.host.operation.value = scenario->hardware.host.launch.value = 0;  // the device alone
    const auto step = engine::run_step(plan::make_plan(scenario, 0, 1));
    CHECK(step.mean.total() == doctest::Approx(step.step_s).epsilon(1e-9));
    return step.mean.exposed_tp_s;
  };
  const double plain = exposed_s(false), overlapped = exposed_s(true);
  CHECK(overlapped > 0);  // last pieces, embedding and loss
  CHECK(overlapped < 0.5 * plain);
}

TEST_CASE("both evaluations agree where exchanges run beside products, in every precision") {
  for (const auto precision : {scenario::Precision::bf16, scenario::Precision::fp8_tensorwise}) {
    auto scenario = tensor_parallel(4, true);
    scenario->training.precision = precision;
    const auto made = plan::make_plan(scenario, 0, 1);
    engine::PlanSource a(made), b(made);
    const auto fast = engine::run_max_plus(a), slow = engine::run_events(b);
    CHECK(fast.finish_ps == slow.finish_ps);
    CHECK(a.parts_of(0).seconds().total() == b.parts_of(0).seconds().total());
  }
}

TEST_CASE("products beside an exchange lose the multiprocessors that its kernel holds") {
  // With as many held as there are, one is left: the gathered input and the sum hide nothing any more.
  const auto step_s = [](double held) {
    auto scenario = tensor_parallel(2, false);
    scenario->hardware.host.operation.value = scenario->hardware.host.launch.value = 0;
    scenario->hardware.network.collective_sms->value = held;
    return engine::run_step(plan::make_plan(scenario, 0, 1)).step_s;
  };
  const double none = step_s(0), some = step_s(24), all = step_s(132);
  CHECK(none < some);
  CHECK(some < all);
  // 24 of 132 are lost while the exchange runs, 131 of 132 if all are.
  CHECK((some - none) / (all - none) == doctest::Approx(24.0 / 131.0).epsilon(0.05));
}
