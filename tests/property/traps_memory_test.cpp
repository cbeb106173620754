#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <string>

#include "memory/replay.h"
#include "plan/library_memory.h"
#include "plan/plan.h"
#include "plan/static_memory.h"
#include "report/report.h"
#include "search/evaluate.h"
#include "support/scenarios.h"

// Mistakes that planners of memory have been caught in, by their number in our list of them; the others are in
// traps_time_test.cpp.
using namespace moeplan;
using moeplan::test::scenario_from;
using moeplan::test::Small;

namespace {

using plan::TensorKind;

std::int64_t kind_of(const plan::BytesByKind& bytes, TensorKind kind) { return bytes[static_cast<std::size_t>(kind)]; }

plan::Plan plan_of(const Small& small) { return plan::make_plan(small.make(), 0, 1); }

std::int64_t peak_of(const Small& small, std::int64_t rank = 0) {
  return memory::replay(plan_of(small), rank).peak.allocated_bytes;
}

}  // namespace

TEST_CASE("trap 1: a rank's routed activations are not divided by EP") {
  // Balanced routing: whatever EP is, a rank computes as many rows as it sends: 256 tokens x top-2 = 512.
  Small small;
  small.gpus = 8;
  std::vector<std::int64_t> peaks;
  for (const int ep : {1, 2, 4, 8}) {
    CAPTURE(ep);
    small.ep = ep;
    const auto plan = plan_of(small);
    for (const auto& decision : plan.decisions)
      for (std::int64_t member = 0; member < ep; ++member) CHECK(decision.forward_rows[0].received(member) == 512);
    peaks.push_back(memory::replay(plan, 0).routed_peak_bytes);
  }
  CHECK(peaks[1] == peaks[2]);     // the same tensors of the same rows
  CHECK(peaks[2] > peaks[3]);      // with one expert a rank nothing is sorted by expert: one buffer less,
  CHECK(2 * peaks[3] > peaks[2]);  // not half
}

TEST_CASE("trap 2: experts are divided by ETP, not by TP") {
  // tiny-moe: one layer of 8 experts of 3 x 64 x 32 = 6,144 parameters; 4 a rank with EP 2.
  const auto experts = [](const std::string& layout) {
    const auto scenario = scenario_from(
        "model: tiny-moe\ncluster: { hardware: h100-sxm, gpus: 8 }\nparallel: { ep: 2, " + layout +
        " }\ntraining: { micro_batch_size: 1, global_batch_size: 8, seq_length: 256 }\nrouting: { balanced: true }\n");
    return plan::stage_parameters(*scenario, 0).experts;
  };
  CHECK(experts("tp: 1") == 4 * 6144);
  CHECK(experts("tp: 2") == 4 * 6144);  // ETP is 1 unless stated
  CHECK(experts("tp: 2, etp: 1") == 4 * 6144);
  CHECK(experts("tp: 2, etp: 2") == 2 * 6144);
}

TEST_CASE("trap 3: uneven stages are reported one by one, and the verdict is that of the largest") {
  const auto scenario = scenario_from(
      "model: tiny-mla\ncluster: { hardware: h100-sxm, gpus: 4 }\n"
      "parallel: { pp: 2, ep: 2, pipeline_model_parallel_layout: 'Et|tttL' }\n"
      "training: { micro_batch_size: 1, global_batch_size: 8, seq_length: 256 }\nrouting: { balanced: true }\n");
  const auto e = search::evaluate(scenario, 1);
  REQUIRE(e.stages.size() == 2);
  CHECK(e.stages[0].layer_count == 1);  // the dense layer
  CHECK(e.stages[1].layer_count == 3);  // three with experts
  // Zero1 over 2 dense replicas (6 + 12 / 2 bytes a parameter), experts whole on one replica (EP 2 of 2: 18 bytes).
  for (std::int64_t stage = 0; stage < 2; ++stage) {
    const auto p = plan::stage_parameters(*scenario, stage);
    const auto memory = plan::static_memory(*scenario, stage);
    const std::int64_t workspace =
        kind_of(memory.load, TensorKind::workspace) + kind_of(memory.moments, TensorKind::workspace);
    CHECK(e.stages[static_cast<std::size_t>(stage)].static_bytes - workspace ==
          6 * p.dense + 12 * ((p.dense + 1) / 2) + 18 * p.experts);
  }
  CHECK(e.worst.stage == 1);
  CHECK(e.worst.peak.allocated_bytes == e.stages[1].peak_allocated_bytes);
  CHECK(2 * e.worst.peak.allocated_bytes > e.stages[0].peak_allocated_bytes + e.stages[1].peak_allocated_bytes);
}

TEST_CASE("trap 4: the first iteration is not the peak: the moments of Adam come with the first update") {
  // Zero1: 8 bytes of moments for each parameter that a rank owns: dense / 4, experts / 2.
  const auto plan = plan_of(Small{});
  const auto p = plan::stage_parameters(*plan.scenario, 0);
  const auto memory = memory::replay(plan, 0);
  const auto at = [&](memory::Phase phase) { return memory.phase_peak_bytes[static_cast<std::size_t>(phase)]; };
  CHECK(at(memory::Phase::steady_iteration) - at(memory::Phase::first_iteration) ==
        8 * ((p.dense + 3) / 4 + p.experts / 2) + plan::returned_gradient_bytes(*plan.scenario, 0));
  CHECK(memory.peak.phase == memory::Phase::steady_iteration);
}

TEST_CASE("trap 5: the peak is on the rank where it is, not on rank 0") {
  Small small;
  small.ep = 4;
  small.mbs = 2;
  small.seq = 1024;
  small.routing = "{ trace: ../tests/data/property/hot_last_member.csv }";
  const auto skewed = search::evaluate(small.make(), 1);
  CHECK(skewed.worst.rank == 3);  // hosts experts 6 and 7: 2,096 of 4,096 copies
  CHECK(skewed.worst.peak.allocated_bytes > skewed.ranks[0].peak.allocated_bytes);
  // With the vocabulary's logits on the last stage, which holds fewer microbatches, the peak is there.
  small = Small{};
  small.pp = 2;
  small.seq = 2048;
  CHECK(search::evaluate(small.make(), 1).worst.stage == 1);
}

TEST_CASE("trap 6: what modules save together is simulated, not added up") {
  // Stage 0 of 2, far from the logits. `moe` drops the output of the activation function too: moe_act only
  // keeps it out of what backward computes again.
  Small small;
  small.model = "tiny-mla";
  small.pp = 2;
  small.seq = 4096;
  small.gbs = 16;
  const std::int64_t none = peak_of(small);
  const auto saved = [&](const std::string& modules) {
    small.memory = "{ recompute_granularity: selective, recompute_modules: [" + modules + "] }";
    return none - peak_of(small);
  };
  const std::int64_t act = saved("moe_act"), moe = saved("moe"), both = saved("moe, moe_act");
  CHECK(act > 0);
  CHECK(moe > act);
  CHECK(both >= moe);
  CHECK(both < act + moe);
}

TEST_CASE("trap 11: from 256 to 128 GPUs the optimizer's part of a rank doubles, and a margin does not carry over") {
  // TP 8: 32 and 16 replicas divide 12 bytes a parameter.
  const auto optimizer = [](int gpus) {
    const auto scenario = scenario_from(
        "model: llama3-70b-12l\ncluster: { hardware: h100-sxm, gpus: " + std::to_string(gpus) +
        " }\nparallel: { tp: 8 }\ntraining: { micro_batch_size: 1, global_batch_size: 32, seq_length: 4096 }\n");
    const auto memory = plan::static_memory(*scenario, 0);
    CHECK(kind_of(memory.load, TensorKind::parameters) == 2 * plan::stage_parameters(*scenario, 0).dense);
    return kind_of(memory.load, TensorKind::optimizer) + kind_of(memory.moments, TensorKind::optimizer);
  };
  const std::int64_t on_256 = optimizer(256), on_128 = optimizer(128);
  CHECK(on_256 > 0);
  CHECK(on_128 <= 2 * on_256);
  CHECK(on_128 > 2 * on_256 - 2 * 12);  // shards are rounded up to whole parameters
}

TEST_CASE("trap 12: host memory is counted, and too little of it is said") {
  // All optimizer states of the 4 ranks on the host: 12 bytes for each of dense / 4 + experts / 2 parameters.
  Small small;
  small.optimizer = "{ cpu_offload: true }";
  auto scenario = std::make_shared<scenario::Scenario>(*small.make());
  const auto p = plan::stage_parameters(*scenario, 0);
  const auto e = search::evaluate(scenario, 1);
  const std::int64_t rank = 12 * ((p.dense + 3) / 4 + p.experts / 2);
  CHECK(e.worst.host_bytes == rank);
  CHECK(report::run_json(e).find("\"host_bytes\": " + std::to_string(rank)) != std::string::npos);
  const auto warns = [&](std::int64_t bytes) {
    scenario->hardware.host.memory = topology::Value{static_cast<double>(bytes), {}, {}};
    const auto with = search::evaluate(scenario, 1);
    return std::any_of(with.warnings.begin(), with.warnings.end(),
                       [](const std::string& line) { return line.find("host memory") != std::string::npos; });
  };
  CHECK_FALSE(warns(4 * rank));  // one node
  CHECK(warns(4 * rank - 1));
}

TEST_CASE("trap 14: virtual stages do not lower memory") {
  Small small;
  small.model = "tiny-mla";
  small.gbs = 32;
  small.seq = 1024;
  const auto peak = [](int vpp) {
    const auto scenario =
        scenario_from("model: tiny-mla\ncluster: { hardware: h100-sxm, gpus: 4 }\nparallel: { pp: 2, ep: 2, vpp: " +
                      std::to_string(vpp) +
                      " }\ntraining: { micro_batch_size: 1, global_batch_size: 16, seq_length: 1024 }\nrouting: { "
                      "balanced: true }\n");
    return memory::replay(plan::make_plan(scenario, 0, 1), 0).peak.allocated_bytes;
  };
  // Stage 0 of 2 holds 2 microbatches of its layers; interleaved, of its 2 chunks up to 2 (p - 1) + (v - 1) p + 1 = 5
  // of halves: 2.5.
  CHECK(peak(2) > peak(1));
}

TEST_CASE("trap 17: with one expert replica, zero1 divides no expert state: 18 bytes a parameter") {
  Small small;
  small.ep = 4;  // of 4 GPUs: EDP 1
  const auto scenario = small.make();
  REQUIRE(scenario->layout.edp() == 1);
  const auto p = plan::stage_parameters(*scenario, 0);
  CHECK(p.experts == 2 * 6144);
  // Dense: 6 + 12 / 4 bytes.
  CHECK(plan::static_memory(*scenario, 0).steady_bytes() == 6 * p.dense + 12 * ((p.dense + 3) / 4) + 18 * p.experts);
  small.ep = 2;  // EDP 2: 6 + 12 / 2
  CHECK(plan::static_memory(*small.make(), 0).steady_bytes() ==
        6 * p.dense + 12 * ((p.dense + 3) / 4) + 12 * (4 * 6144));
}
