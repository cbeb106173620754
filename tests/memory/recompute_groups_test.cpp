#include "support/recompute_groups.h"

#include <doctest/doctest.h>

#include <string>

#include "memory/replay.h"
#include "memory/reserved.h"
#include "memory/walk.h"
#include "plan/plan.h"

using namespace moeplan;
using moeplan::test::dense;
using moeplan::test::full;
using moeplan::test::scenario_from;

namespace {

std::int64_t up(std::int64_t bytes) { return (bytes + 511) / 512 * 512; }

std::int64_t peak(const std::shared_ptr<const scenario::Scenario>& scenario) {
  return memory::replay(plan::make_plan(scenario, 0, 1), 0).peak.allocated_bytes;
}

}  // namespace

TEST_CASE("a microbatch in flight keeps one input a group of layers") {
  // Of 6 layers: 6, 3, 2 and 1 inputs of 256 x 64 in bf16; an incomplete last group counts (4 and 2 layers: 2). What a
  // loss in flight keeps is the same for all.
  const std::int64_t input = up(2 * 256 * 64);
  const auto more = [&](int group) { return peak(dense(6, full(group), 4)) - peak(dense(6, full(group), 3)); };
  const std::int64_t each = more(1);
  CHECK(each - more(2) == 3 * input);
  CHECK(each - more(3) == 4 * input);
  CHECK(each - more(4) == 4 * input);
  CHECK(each - more(6) == 5 * input);
}

TEST_CASE("a group's layers are all alive when its backward starts") {
  // One microbatch of 1F1B; the peak lies in the last layer's backward of the last group. A group of two holds one
  // layer's saved tensors more than groups of one, and one input less.
  const std::int64_t t = 256, h = 64, g = 128, a = 4, kv = 2, d = 16;
  const std::int64_t layer = up(2 * t * h)                                 // layer input
                             + up(2 * t * h) + up(4 * t)                   // attention norm
                             + up(2 * t * a * d) + 2 * up(2 * t * kv * d)  // query, key, value
                             + up(2 * t * a * d) + up(4 * t * a)           // output, log-sum-exp
                             + up(2 * t * h)                               // residual after attention
                             + up(2 * t * h) + up(4 * t)                   // MLP norm
                             + up(2 * t * 2 * g) + up(2 * t * g);          // gate-up, activation
  memory::RankMemory one = memory::replay(plan::make_plan(dense(8, full(4)), 0, 1), 0);
  memory::RankMemory two = memory::replay(plan::make_plan(dense(8, full(8)), 0, 1), 0);
  // Groups of 4: inputs of two groups, of which the second runs again: 4 layers. One of 8: 8 layers, one input, which
  // is the first layer's own. Both peak in a layer's backward.
  CHECK(two.peak.direction == "backward");
  CHECK(two.peak.allocated_bytes - one.peak.allocated_bytes == 4 * layer - up(2 * t * h));
}

TEST_CASE("programs of groups free what they allocate, in every schedule, dispatcher, sharding and treatment") {
  for (const char* sharding : {"zero1", "megatron_fsdp"})
    for (const char* parallel : {"{ ep: 2 }", "{ pp: 2, ep: 2 }", "{ pp: 2, vpp: 2, ep: 2 }", "{ tp: 2, ep: 2 }"})
      for (const char* moe : {"{}", "{ dispatcher: deepep }", "{ policies: { memfine: { rule: fixed, chunks: 2 } } }"})
        for (int group : {2, 3}) {
          CAPTURE(parallel);
          CAPTURE(moe);
          const auto scenario = scenario_from(
              std::string("model: tiny-mla\ncluster: { hardware: h100-sxm, gpus: 8 }\nparallel: ") + parallel +
              "\ntraining: { mbs: 1, gbs: 32, seq: 256, overlap_grad_reduce: true, overlap_param_gather: true }\n" +
              "optimizer: { sharding: " + sharding + " }\nmemory: " + full(group) + "\nmoe: " + moe +
              "\nrouting: { balanced: true }\n");
          const auto plan = plan::make_plan(scenario, 0, 1);
          for (std::int64_t rank = 0; rank < 8; ++rank) {
            memory::Walk walk(plan, rank);
            walk.run([](std::size_t, std::size_t, const memory::Walk::Live&) {});  // checks what is left
          }
        }
}
