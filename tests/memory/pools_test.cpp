#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <map>

#include "memory/caching_allocator.h"
#include "memory/timeline.h"
#include "plan/library_memory.h"
#include "support/scenarios.h"

using namespace moeplan;
using moeplan::test::scenario_from;

namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;
using memory::MemoryEvent;

std::shared_ptr<const scenario::Scenario> in(const std::string& training, const std::string& rest = "",
                                             const std::string& parallel = "{ ep: 2 }") {
  return scenario_from("model: qwen3-30b-a3b\ncluster: { hardware: h200-sxm, gpus: 16 }\nparallel: " + parallel +
                       "\ntraining: { mbs: 1, gbs: 64, seq: 2048" + training +
                       " }\nrouting: { balanced: true }\nmemory: { usable_fraction: 1 }\n" + rest);
}

}  // namespace

TEST_CASE("segments of a kept stream never go back, those of others do") {
  memory::CachingAllocator allocator({});
  const auto graph = allocator.allocate(12 * kMiB, 1), plain = allocator.allocate(12 * kMiB, 0);
  allocator.keep_segments_of(1);
  allocator.release(*graph);
  allocator.release(*plain);
  CHECK(allocator.stats().reserved == 24 * kMiB);
  allocator.empty_cache();
  CHECK(allocator.stats().reserved == 12 * kMiB);
  // What is kept serves its own stream alone.
  CHECK(allocator.allocate(12 * kMiB, 0));
  CHECK(allocator.stats().reserved == 24 * kMiB);
  CHECK(allocator.allocate(12 * kMiB, 1));
  CHECK(allocator.stats().reserved == 24 * kMiB);
}

TEST_CASE("a full device does not take from the pool of graphs") {
  memory::AllocatorSettings settings;
  settings.capacity_bytes = 24 * kMiB;
  memory::CachingAllocator allocator(settings);
  allocator.release(*allocator.allocate(12 * kMiB, 1));
  allocator.keep_segments_of(1);
  CHECK(allocator.allocate(12 * kMiB, 0));
  CHECK_FALSE(allocator.allocate(12 * kMiB, 0));  // a retry frees nothing
}

TEST_CASE("while graphs are captured nothing cached is given back for them") {
  memory::AllocatorSettings settings;
  settings.capacity_bytes = 24 * kMiB;
  memory::CachingAllocator allocator(settings);
  allocator.release(*allocator.allocate(24 * kMiB, 0));
  allocator.keep_segments_of(1);
  CHECK_FALSE(allocator.allocate(12 * kMiB, 1));
  CHECK(allocator.stats().retries == 0);
  CHECK(allocator.allocate(12 * kMiB, 2));  // of any other stream: one retry
  CHECK(allocator.stats().retries == 1);
}

TEST_CASE("captured operations allocate from the second iteration on in a pool of their own, others never") {
  for (const char* graphs :
       {", cuda_graph_impl: transformer_engine, cuda_graph_scope: [attn]", ", cuda_graph_impl: full_iteration"}) {
    CAPTURE(graphs);
    const auto plan = plan::make_plan(in(graphs), 0, 1);
    const auto timeline = memory::timeline_of(plan, 0, 3);
    std::int64_t pooled = 0, eager = 0, attention = 0;
    for (const MemoryEvent& event : timeline.events) {
      if (event.action != MemoryEvent::Action::alloc || event.visit < 0) continue;
      const bool in_pool = event.pool == 1;
      if (event.iteration == 0) CHECK_FALSE(in_pool);
      if (event.phase == memory::Phase::steady_optimizer_step) CHECK_FALSE(in_pool);
      (in_pool ? pooled : eager) += 1;
      if (event.iteration > 0 && event.tensor == "query") attention += in_pool ? 1 : -1000;
      if (event.iteration > 0 && event.tensor == "softmax (fp32)")
        CHECK(in_pool == (plan.scenario->training.cuda_graphs == scenario::CudaGraphs::full_iteration));
    }
    CHECK(pooled > 0);
    CHECK(eager > 0);
    CHECK(attention > 0);
  }
}

TEST_CASE("what a graph of the whole iteration reserved stays reserved: a later allocation cannot have it") {
  const auto plan = plan::make_plan(in(", cuda_graph_impl: full_iteration"), 0, 1);
  const auto timeline = memory::timeline_of(plan, 0, 3);
  // From the end of the capture on reserved never falls below what the pool took then, whatever is alive in it.
  std::int64_t in_pool = 0, most = 0, least = INT64_MAX;
  for (const MemoryEvent& event : timeline.events) {
    if (event.iteration == 1 && event.pool == 1) {
      in_pool += event.action == MemoryEvent::Action::alloc ? event.bytes : -event.bytes;
      most = std::max(most, in_pool);
    }
    if (event.iteration == 2) least = std::min(least, event.reserved_bytes);
  }
  CHECK(in_pool == 0);
  CHECK(most > 0);
  std::int64_t statics = 0;
  for (const auto& bytes : {plan.statics[0].load, plan.statics[0].moments})
    for (const std::int64_t kind : bytes) statics += kind;
  CHECK(least >= most + statics);
}

TEST_CASE("Megatron's own graphs have an input and a gradient of their own, a layer and microbatch in flight") {
  // One stage: one microbatch in flight, 48 layers, 2048 tokens of 2048 in bf16, twice.
  CHECK(plan::graph_input_bytes(*in(", cuda_graph_impl: local"), 0) == 2 * 2 * 2048 * 2048 * 48);
  CHECK(plan::graph_input_bytes(*in(", cuda_graph_impl: transformer_engine"), 0) == 0);
  // Two stages: 24 layers each, two microbatches in flight on the first, one on the last.
  const auto staged = in(", cuda_graph_impl: local", "", "{ ep: 2, pp: 2 }");
  CHECK(plan::graph_input_bytes(*staged, 0) == 2 * 2 * 2048 * 2048 * 24 * 2);
  CHECK(plan::graph_input_bytes(*staged, 1) == 2 * 2 * 2048 * 2048 * 24);
}

TEST_CASE("a tensor that a copy to the host reads waits for the copy, others are free at once") {
  const auto plan = plan::make_plan(
      scenario_from("model: llama3-70b-12l\ncluster: { hardware: h100-sxm, gpus: 8 }\nparallel: { tp: 8 }\ntraining: { "
                    "mbs: 1, gbs: 1, seq: 4096 }\nmemory: { offload_modules: [core_attn] }\n"),
      0, 1);
  const auto timeline = memory::timeline_of(plan, 0, 2);
  std::map<std::int64_t, std::int64_t> waiting;  // by address
  std::int64_t requested = 0, completed = 0, at_once = 0;
  for (const MemoryEvent& event : timeline.events) {
    if (event.action == MemoryEvent::Action::free_requested) {
      ++requested;
      waiting[event.address] = event.bytes;
    } else if (event.action == MemoryEvent::Action::free_completed) {
      ++completed;
      CHECK(waiting.erase(event.address) == 1);
    } else if (event.action == MemoryEvent::Action::alloc) {
      CHECK(waiting.count(event.address) == 0);  // nobody gets it before
    } else {
      ++at_once;
      CHECK(event.tensor != "gate-up output");
    }
  }
  CHECK(requested > 0);
  CHECK(requested == completed);
  CHECK(at_once > requested);
}

TEST_CASE("waiting raises what is reserved, never what is allocated") {
  const std::string text =
      "model: llama3-70b-12l\ncluster: { hardware: h100-sxm, gpus: 8 }\nparallel: { tp: 8 }\ntraining: { mbs: 1, gbs: "
      "1, "
      "seq: 8192 }\nmemory: { offload_modules: [core_attn, attn_proj] }\n";
  const auto plan = plan::make_plan(scenario_from(text), 0, 1);
  const auto reserved = memory::reserved_of(plan, 0);
  // In iterations; loading holds parameters twice for a moment.
  CHECK(reserved.allocated_peak_bytes >= memory::replay(plan, 0).peak.allocated_bytes - 64 * 1024);
  CHECK(reserved.peak_bytes >= reserved.allocated_peak_bytes);
}

TEST_CASE("a timeline adds up: allocated is what was allocated and not freed, and ends where it began") {
  const auto plan = plan::make_plan(in(""), 0, 1);
  const auto timeline = memory::timeline_of(plan, 0, 2);
  std::int64_t held = 0, after_first = -1, after_second = -1, reserved = 0;
  for (const MemoryEvent& event : timeline.events) {
    held += event.action == MemoryEvent::Action::alloc            ? event.bytes
            : event.action == MemoryEvent::Action::free_completed ? 0
                                                                  : -event.bytes;
    CHECK(event.allocated_bytes == held);
    CHECK(event.reserved_bytes >= held);
    reserved = std::max(reserved, event.reserved_bytes);
    (event.iteration == 1 ? after_second : after_first) = held;
  }
  CHECK(after_first == after_second);
  CHECK(reserved == timeline.reserved.peak_bytes);
  // The events of the load phase come first, without an op.
  CHECK(timeline.events.front().visit == -1);
  CHECK(timeline.events.front().phase == memory::Phase::load);
}
