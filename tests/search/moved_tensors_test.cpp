#include <doctest/doctest.h>

#include "engine/step.h"
#include "memory/replay.h"
#include "plan/plan.h"
#include "support/scenarios.h"

// What does not stay on a rank: divided parameters, offloaded activations, recomputed layers, as the memory replay and
// the engine see them.
using namespace moeplan;
using moeplan::test::Small;

TEST_CASE("gathering ahead costs less than gathering in turn, and at least the longest stream") {
  Small small;
  small.optimizer = "{ sharding: zero3 }";
  small.seq = 4096;
  const auto plan = plan::make_plan(small.make(), 0, 1);
  const auto time = engine::run_step(plan);
  CHECK(time.mean.exposed_dp_s > 0);
  for (const auto& rank : time.ranks) CHECK(rank.parts.total() == doctest::Approx(time.step_s).epsilon(1e-9));
}

TEST_CASE("offload lowers the peak and does not shorten the step") {
  Small small;
  small.pp = 2;
  small.ep = 1;
  small.seq = 4096;
  const auto plain = plan::make_plan(small.make(), 0, 1);
  small.memory = "{ offload_modules: [core_attn, attn_proj] }";
  const auto offloaded = plan::make_plan(small.make(), 0, 1);
  CHECK(memory::replay(offloaded, 0).peak.allocated_bytes < memory::replay(plain, 0).peak.allocated_bytes);
  CHECK(engine::run_step(offloaded).step_s >= engine::run_step(plain).step_s);
}

TEST_CASE("method block recomputes the first layers of a virtual stage whole, and spares the others") {
  Small small;
  small.model = "tiny-dense";
  small.ep = 1;
  small.routing = "";
  small.gbs = 4;
  const auto peak = [&](const std::string& memory) {
    small.memory = memory;
    return memory::replay(plan::make_plan(small.make(), 0, 1), 0).phase_peak_bytes[1];
  };
  const std::string block = "{ recompute_granularity: full, recompute_method: block, recompute_num_layers: ";
  const auto none = peak("{}"), all = peak("{ recompute_granularity: full }");
  const std::int64_t layers = small.make()->model.layer_count();
  CHECK(peak(block + std::to_string(layers) + " }") == all);
  CHECK(peak(block + "1 }") < none);
  CHECK(peak(block + "1 }") > all);
}

TEST_CASE("overlap hides exchanges: never slower, time parts still sum to the step, nothing stays allocated") {
  for (const int pp : {1, 2}) {
    Small small;
    small.gpus = 8;
    small.pp = pp;
    small.ep = 4;
    small.gbs = 32;
    small.seq = 2048;
    auto scenario = std::make_shared<scenario::Scenario>(*small.make());
    auto& host = scenario->hardware.host;
    host.launch.value = host.operation.value = host.sync.value = 0;  // the device alone counts
    const double plain = engine::run_step(plan::make_plan(scenario, 0, 1)).step_s;
    for (const bool delayed : {false, true}) {
      auto overlapping = std::make_shared<scenario::Scenario>(*scenario);
      overlapping->dispatch.overlap = true;
      overlapping->dispatch.delay_wgrad = delayed;
      const auto plan = plan::make_plan(overlapping, 0, 1);
      const auto time = engine::run_step(plan);
      CHECK(time.step_s < plain);
      for (const auto& rank : time.ranks) CHECK(rank.parts.total() == doctest::Approx(time.step_s).epsilon(1e-9));
      CHECK(memory::replay(plan, 0).peak.allocated_bytes > 0);  // the walk ends with nothing allocated, or throws
    }
  }
}

TEST_CASE("gradients and parameters that travel beside the layers cost less than at the end of the step") {
  Small small;
  small.gpus = 16;
  small.seq = 2048;
  small.gbs = 32;
  auto overlapping = std::make_shared<scenario::Scenario>(*small.make());
  const auto plain = engine::run_step(plan::make_plan(overlapping, 0, 1));
  overlapping->training.overlap_grad_reduce = overlapping->training.overlap_param_gather = true;
  const auto hidden = engine::run_step(plan::make_plan(overlapping, 0, 1));
  CHECK(hidden.mean.exposed_dp_s < plain.mean.exposed_dp_s);
  for (const auto& rank : hidden.ranks) CHECK(rank.parts.total() == doctest::Approx(hidden.step_s).epsilon(1e-9));
}

TEST_CASE("overlap runs to its end whatever the stages, virtual stages and microbatches") {
  for (const int pp : {2, 4})
    for (const int vpp : {1, 2})
      for (const int m : {1, 2, 3, 4, 8}) {
        if (vpp > 1 && m % pp != 0) continue;
        Small small;
        small.model = "tiny-mla";
        small.gpus = 2 * pp;
        small.pp = pp;
        small.ep = 2;
        small.gbs = 2 * m;
        if (vpp > 1 && small.make()->model.layer_count() % (pp * vpp) != 0) continue;
        auto scenario = std::make_shared<scenario::Scenario>(*small.make());
        scenario->dispatch.overlap = true;
        CAPTURE(pp);
        CAPTURE(m);
        const auto plan = plan::make_plan(scenario, 0, 1);
        const auto time = engine::run_step(plan);
        for (const auto& rank : time.ranks) CHECK(rank.parts.total() == doctest::Approx(time.step_s).epsilon(1e-9));
        scenario->training.schedule = "gpipe";
        CHECK(engine::run_step(plan::make_plan(scenario, 0, 1)).step_s > 0);
      }
}

TEST_CASE("copies of activations to the host and back follow each other") {
  Small small;
  small.seq = 4096;
  auto scenario = std::make_shared<scenario::Scenario>(*small.make());
  scenario->memory.offload_modules = {scenario::OffloadModule::core_attn};
  scenario->hardware.network.host_link_bandwidth->value = 1e7;  // so slow that the copies are the step
  std::int64_t bytes = 0;
  const auto plan = plan::make_plan(scenario, 0, 1);
  for (const auto& visit : plan.programs[0].visits)
    for (const auto& op : plan.blocks[static_cast<std::size_t>(visit.block)].forward)
      if (op.work == plan::Work::host_copy && visit.direction == schedule::Direction::forward) bytes += op.size.bytes;
  const auto time = engine::run_step(plan);
  // Out and back: 2 bytes x each over the link at least, less the last block's that may still be under way.
  CHECK(time.step_s > 1.5 * static_cast<double>(bytes) / 1e7);
  CHECK(time.mean.exposed_offload_s > 0.5 * time.step_s);
}
