#include "plan/static_memory.h"

#include <doctest/doctest.h>

#include "model/parameters.h"
#include "plan/replica_costs.h"
#include "support/scenarios.h"

using namespace moeplan;
using moeplan::test::Small;

namespace {
std::int64_t at(const plan::BytesByKind& bytes, plan::TensorKind kind) { return bytes[static_cast<std::size_t>(kind)]; }
}  // namespace

TEST_CASE("stages and expert ranks together hold the whole model, vocabulary padded") {
  Small small;
  small.gpus = 8;
  small.pp = 2;
  small.ep = 4;
  const auto scenario = small.make();
  std::int64_t dense = 0, experts = 0;
  for (std::int64_t stage = 0; stage < 2; ++stage) {
    const auto p = plan::stage_parameters(*scenario, stage);
    dense += p.dense;
    experts += 4 * p.experts;
  }
  // 1000 words are padded to 1024 (a multiple of 128): 24 rows of 64 more in each of embedding and head.
  CHECK(dense + experts == model::model_parameters(scenario->model).total() + 2 * 24 * 64);
  // 8 experts of 3 x 64 x 32.
  CHECK(experts == 8 * 3 * 64 * 32);
}

TEST_CASE("bytes of a parameter: 6 + 12/d under the distributed optimizer, 18 replicated") {
  // 4 GPUs, tp 1, pp 1, ep 2: dense parameters over dp 4, experts over edp 2.
  Small small;
  const auto sharded = small.make();
  const auto p = plan::stage_parameters(*sharded, 0);
  const auto memory = plan::static_memory(*sharded, 0);
  CHECK(at(memory.load, plan::TensorKind::parameters) == 2 * (p.dense + p.experts));
  CHECK(at(memory.load, plan::TensorKind::gradients) == 4 * (p.dense + p.experts));
  const std::int64_t owned = p.dense / 4 + p.experts / 2;  // both divide exactly
  CHECK(p.dense % 4 == 0);
  CHECK(at(memory.load, plan::TensorKind::optimizer) + at(memory.moments, plan::TensorKind::optimizer) == 12 * owned);
  small.optimizer = "{ sharding: ddp }";
  CHECK(plan::static_memory(*small.make(), 0).steady_bytes() == 18 * (p.dense + p.experts));
  small.optimizer = "{ sharding: ddp, main_grads_dtype: bf16, exp_avg_dtype: bf16, exp_avg_sq_dtype: bf16 }";
  // 2 parameter + 2 gradient + 4 master + 2 + 2 moments.
  CHECK(plan::static_memory(*small.make(), 0).steady_bytes() == 12 * (p.dense + p.experts));
}

TEST_CASE("given static bytes stand for parameters, gradients and optimizer states") {
  Small small;
  small.memory = "{ given_static_bytes: 3 GB }";
  const auto memory = plan::static_memory(*small.make(), 0);
  CHECK(memory.steady_bytes() == 3'000'000'000);
  CHECK(at(memory.load, plan::TensorKind::parameters) == 0);
}

TEST_CASE("communicators: the world and each group of more than one rank") {
  Small small;
  // tp 1, pp 1: world, ep 2, dp 4, edp 2.
  CHECK(plan::static_memory(*small.make(), 0).communicators == 4);
  small.gpus = 8;
  small.pp = 2;
  small.tp = 2;
  // world, tp 2, ep 2, dp 2, edp 2, pp 2.
  CHECK(plan::static_memory(*small.make(), 0).communicators == 6);
}

TEST_CASE("rows of equation 8 for the paper's models") {
  // (0.9 x 64e9 - 43.0e9 - 0.8997e9) / 36864 = 13.7003e9 / 36864 = 371,644; model II: 17.2003e9 / 36864 = 466,588.
  for (const auto& [file, rows] : {std::pair{"papers/memfine/model-1-adaptive.yaml", 371644.0},
                                   {"papers/memfine/model-2-adaptive.yaml", 466588.0}}) {
    const auto scenario = moeplan::test::scenario_file(file);
    CHECK(plan::memfine_max_rows(*scenario, *scenario->policies.memfine, 0) == doctest::Approx(rows).epsilon(1e-4));
  }
}

TEST_CASE("what the budget of rows leaves for tokens follows the schedule: gpipe holds all microbatches") {
  Small small;
  small.model = "tiny-mla";
  small.pp = 2;
  small.gbs = 16;  // 8 microbatches on each of 2 replicas
  small.policies = "{ memfine: { rule: adaptive } }";
  auto rows = [&](const char* schedule, std::int64_t stage) {
    small.schedule = schedule;
    const auto scenario = small.make();
    return plan::memfine_max_rows(*scenario, *scenario->policies.memfine, stage);
  };
  CHECK(rows("gpipe", 0) < rows("1f1b", 0));
  CHECK(rows("gpipe", 1) < rows("1f1b", 1));
}

TEST_CASE("closed form with full recompute: one layer, the larger kind") {
  // tiny-mla: T 256, h 64, 4 heads of 24, 8 experts; dense width 128. Per token and in bf16:
  // MoE 5 x 64 + 4 x 24 + 2 x 4 x 24 + 8 = 616 elements; dense 616 - 8 + 2 x 128 = 864.
  Small small;
  small.model = "tiny-mla";
  small.memory = "{ recompute_granularity: full }";
  const auto scenario = small.make();
  CHECK(plan::closed_form_activation_bytes(*scenario, 0, 0, true) == 2 * 256 * 864);
  // A received row is 2 (2 x 64 + 2 x 32) = 384 bytes: with 512 rows the MoE layer is the larger.
  CHECK(plan::closed_form_activation_bytes(*scenario, 0, 512, true) == 2 * 256 * 616 + 384 * 512);
}

TEST_CASE("LRMoE's memory rows: mode A holds a row of every layer in flight") {
  // tiny-moe, one MoE layer, h 64, g 32: D (3h + 5g) = 2 (192 + 160) = 704 bytes a row; kept alone D (h + 3g) = 320.
  Small small;
  small.gbs = 32;
  small.policies = "{ lrmoe: {} }";
  CHECK(plan::lrmoe_row_bytes(*small.make(), 0) == 704);
  CHECK(plan::lrmoe_layers_held(*small.make(), 0) == 1);
  small.policies = "{ lrmoe: { mode: A } }";
  CHECK(plan::lrmoe_row_bytes(*small.make(), 0) == 704);  // one layer, one microbatch in flight
  small.model = "tiny-mla";
  small.pp = 2;
  const auto scenario = small.make();
  const double held = plan::lrmoe_layers_held(*scenario, 0);
  const std::int64_t h = scenario->model.hidden, g = scenario->model.moe.ffn;
  CHECK(held > 1);
  CHECK(plan::lrmoe_row_bytes(*scenario, 0) ==
        static_cast<double>(2 * (3 * h + 5 * g)) + (held - 1) * static_cast<double>(2 * (h + 3 * g)));
  small.memory = "{ recompute_granularity: full }";
  CHECK(plan::lrmoe_layers_held(*small.make(), 0) == 1);
}

TEST_CASE("costs of an instance follow the machine and the model") {
  Small small;
  small.policies = "{ lrmoe: { replicas: greedy } }";
  const auto scenario = small.make();
  const auto costs = plan::replica_costs(*scenario, 0);
  CHECK(costs.weight_bytes == 3 * 64 * 32 * 2);
  CHECK(costs.gradient_bytes == 3 * 64 * 32 * 4);
  // (2 + 4) x 6144 bytes over 704 a row.
  CHECK(costs.instance_rows == doctest::Approx(6.0 * 6144 / 704));
  CHECK(costs.forward_row_s > 0);
  // Mode B: the first projection again, and two products where forward has one.
  CHECK(costs.backward_row_s > 2 * costs.forward_row_s);
  CHECK(costs.members_per_node == 0);  // both members on one node
  // 12,288 bytes between two GPUs of a node: latency counts, so it is slower than the link.
  CHECK(costs.bytes_per_s < scenario->hardware.network.scale_up_bandwidth.value);
  small.policies = "{ lrmoe: { replicas: greedy, mode: A } }";
  CHECK(plan::replica_costs(*small.make(), 0).backward_row_s < costs.backward_row_s);
  small.policies = "{ lrmoe: {} }";
  CHECK(plan::replica_costs(*small.make(), 0).weight_bytes == 0);
}
