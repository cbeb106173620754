#pragma once
#include <algorithm>
#include <memory>
#include <string>
#include <utility>

#include "search/evaluate.h"
#include "support/holds.h"

// An evaluation written by hand: round figures whose results a reader can follow.
namespace moeplan::report::testing {

inline constexpr std::int64_t kGiB = std::int64_t{1} << 30;

// 4 GPUs with 64 GiB each, of which half is usable; one MoE layer; 2 microbatches of 100 tokens on 4 replicas.
inline std::shared_ptr<scenario::Scenario> small_scenario() {
  auto scenario = std::make_shared<scenario::Scenario>();
  scenario->name = "/somewhere/else/small.yaml";
  scenario->model.id = "tiny";
  scenario->model.layers = {model::LayerKind::moe};
  scenario->hardware.id = "box";
  scenario->hardware.device.memory_capacity.value = 64.0 * static_cast<double>(kGiB);
  scenario->hardware.device.peak_bf16.value = 1e15;
  scenario->layout.world = 4;
  scenario->layout.ep = 2;
  scenario->training.micro_batch_size = 1;
  scenario->training.global_batch_size = 8;
  scenario->training.seq_length = 100;
  scenario->memory.usable_fraction = 0.5625;
  scenario->routing_label = "trace";
  scenario->seed = 7;
  scenario->assumptions = {"a default that was taken"};
  scenario->warnings = {"a setting without effect"};
  return scenario;
}

inline memory::RankMemory rank_memory(std::int64_t rank, std::int64_t gib) {
  memory::RankMemory memory;
  memory.rank = rank;
  memory.peak.phase = memory::Phase::steady_iteration;
  memory.peak.op = "expert down";
  memory.peak.direction = "backward";
  memory.peak.layer = 0;
  memory.peak.microbatch = 1;
  memory.peak.allocated_bytes = gib * kGiB;
  auto kind = [&](plan::TensorKind which) -> std::int64_t& {
    return memory.peak.by_kind[static_cast<std::size_t>(which)];
  };
  kind(plan::TensorKind::parameters) = 8 * kGiB;
  kind(plan::TensorKind::activations_moe) = (gib - 8) * kGiB;
  memory.static_bytes = 8 * kGiB;
  memory.routed_peak_bytes = (gib - 8) * kGiB;
  memory.outside_bytes = kGiB;
  memory.phase_peak_bytes.fill(8 * kGiB);
  memory.phase_peak_bytes[static_cast<std::size_t>(memory::Phase::steady_iteration)] = gib * kGiB;
  return memory;
}

// Rank 2 peaks at 15 GiB allocated, 17 reserved + 1 outside = 18 of 36 usable: half is left. The step takes 2 s.
inline search::Evaluation small_evaluation(std::shared_ptr<scenario::Scenario> scenario = small_scenario()) {
  search::Evaluation e;
  e.scenario = scenario;
  for (std::int64_t rank = 0; rank < scenario->layout.world; ++rank)
    e.ranks.push_back(rank_memory(rank, rank == 2 ? 15 : 12));
  e.ranks[2].reserved_bytes = 17 * kGiB;
  e.worst = e.ranks[2];
  e.alive = {{"parameters", plan::TensorKind::parameters, 8 * kGiB, 1},
             {"expert input", plan::TensorKind::activations_moe, 7 * kGiB, 14}};
  e.fit = search::judge(18 * kGiB, 36 * kGiB, 64 * kGiB);
  e.closed_form_rank = 2;
  e.closed_form_activation_bytes = 6.0 * static_cast<double>(kGiB);
  e.replay_activation_bytes = 8 * kGiB;
  e.closed_form_total_bytes = 14.0 * static_cast<double>(kGiB);
  e.step_s = 2.0;
  e.tokens_per_s_per_gpu = 100.0;  // 800 tokens / 2 s / 4
  e.flops_per_token = 2e12;
  e.model_flops_per_gpu = 2e14;
  e.mfu = 0.2;
  e.mfu_peak_flops = 1e15;
  e.mean.family_s[static_cast<std::size_t>(plan::Family::expert)] = 1.0;
  e.mean.exposed_ep_s = 0.6;
  e.mean.imbalance_wait_s = 0.4;
  search::StageSummary stage;
  stage.last_rank = scenario->layout.world - 1;
  stage.peak_allocated_bytes = 15 * kGiB;
  stage.peak_rank = 2;
  stage.peak_reserved_bytes = 17 * kGiB;
  stage.static_bytes = 8 * kGiB;
  stage.busy_s = 1.0;
  e.stages = {stage};
  e.routing.source = "trace /data/law: 50 tokens";
  e.routing.tokens = 800;
  e.routing.max_over_mean_expert = e.routing.worst_max_over_mean_expert = 3.0;
  e.routing.max_over_mean_rank = e.routing.worst_max_over_mean_rank = 1.5;
  search::LayerRouting layer;
  layer.max_over_mean_expert = 3.0;
  layer.max_over_mean_rank = 1.5;
  layer.max_received_rows = 1234;
  layer.max_received_rank = 2;
  layer.chunks_by_microbatch = {1, 2};
  e.routing.layers = {layer};
  e.step_distribution = {2.0, 2.0, 2.0, 2.0};
  const double peak = 18.0 * static_cast<double>(kGiB);
  e.peak_distribution = {peak, peak, peak, peak};
  return e;
}

using moeplan::test::holds;

inline std::size_t widest_line(const std::string& text) {
  std::size_t widest = 0, column = 0;
  for (const char c : text) {
    column = c == '\n' ? 0 : column + 1;
    widest = std::max(widest, column);
  }
  return widest;
}

}  // namespace moeplan::report::testing
