#include "search/layer_prediction.h"

#include <fmt/core.h>

#include <algorithm>
#include <numeric>

#include "base/check.h"
#include "config/document.h"
#include "engine/step.h"
#include "memory/caching_allocator.h"
#include "memory/walk.h"
#include "scenario/resolve.h"

namespace moeplan::search {
namespace {

using measurements::LayerRun;

// One layer on one GPU; attention and vocabulary have no part in the program. Products by the run's own library.
std::shared_ptr<const scenario::Scenario> layer_scenario(const LayerRun& run,
                                                         const topology::HardwareProfile& profile) {
  const std::string yaml = fmt::format(
      "model:\n"
      "  name: layer\n"
      "  source: \"the line of the run\"\n"
      "  hidden_size: {}\n"
      "  vocab_size: 128\n"
      "  attention: {{ kind: gqa, num_attention_heads: 1, num_query_groups: 1, kv_channels: 8 }}\n"
      "  moe: {{ num_experts: {}, moe_router_topk: {}, moe_ffn_hidden_size: {} }}\n"
      "  layers: [ {{ kind: moe, count: 1 }} ]\n"
      "cluster: {{ hardware: h100-sxm, gpus: 1 }}\n"
      "training: {{ micro_batch_size: 1, global_batch_size: 1, seq_length: {} }}\n"
      "routing: {{ balanced: true }}\n",
      run.hidden, run.experts, run.top_k, run.ffn, run.tokens);
  auto scenario = std::make_shared<scenario::Scenario>(
      scenario::resolve_scenario(config::parse_yaml(yaml, "layer run"), "layer run", ".", {}, nullptr));
  scenario->hardware = profile;
  const topology::HardwareProfile::Library* library = topology::find_library(profile, run.library);
  if (library != nullptr) scenario->hardware = topology::with_library(profile, *library);
  scenario->hardware.gemm.in_steps.reset();  // one GPU, the same layer again and again
  return scenario;
}

policy::RoutedRows rows_of(std::vector<std::int64_t> counts) {
  policy::RoutedRows rows;
  rows.members = 1;
  rows.matrix = {static_cast<std::int32_t>(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}))};
  rows.instance_begin = {0, static_cast<std::int32_t>(counts.size())};
  rows.instance_rows = std::move(counts);
  return rows;
}

policy::LayerDecision decision_of(const LayerRun& run) {
  policy::LayerDecision decision;
  decision.chunks = run.chunks;
  decision.backward = run.backward == "kept"        ? policy::RoutedBackward::kept
                      : run.backward == "recompute" ? policy::RoutedBackward::recompute
                                                    : policy::RoutedBackward::redispatch;
  for (std::int64_t chunk = 0; chunk < run.chunks; ++chunk) {
    const auto first = run.chunk_rows.begin() + chunk * run.experts;
    decision.forward_rows.push_back(rows_of({first, first + run.experts}));
    decision.routed_rows += static_cast<double>(decision.forward_rows.back().total());
  }
  decision.retained_rows = decision.routed_rows;
  if (decision.backward != policy::RoutedBackward::redispatch) return decision;
  decision.select = true;
  decision.backward_rows.push_back(rows_of(run.retained_rows));
  decision.retained_rows = static_cast<double>(decision.backward_rows.back().total());
  return decision;
}

// Step after step through the model of PyTorch's allocator, until the cache has settled.
std::int64_t reserved_bytes(const plan::Plan& plan) {
  constexpr int kSteps = 3;
  memory::CachingAllocator allocator({});
  const plan::Block& block = plan.blocks.front();
  std::vector<memory::CachingAllocator::Handle> handles(block.tensors.size(), memory::CachingAllocator::kNothing);
  for (int step = 0; step < kSteps; ++step)
    for (const plan::Visit& visit : plan.programs.front().visits)
      for (const plan::Op& op : plan::ops_of(block, visit.direction)) {
        for (const plan::TensorId id : op.allocates)
          handles[id] = *allocator.allocate(plan.bytes(block.tensors[id].size, visit, 0));
        for (const plan::TensorId id : op.frees) allocator.release(handles[id]);
      }
  return allocator.stats().reserved_peak;
}

// Products one by one are launched one by one: as many as experts have rows, of a chunk on average. Backward of
// retained pairs is one part, whatever forward's chunks.
void launch_apart(const LayerRun& run, plan::Block& block) {
  if (run.library.find("a product an expert") == std::string::npos) return;
  const bool wgrad_alone = run.library.find("weight gradients a product an expert") != std::string::npos;
  const auto set = [&](std::vector<plan::Op>& ops, const std::vector<std::int64_t>& rows, std::int64_t parts) {
    const std::int64_t products =
        (std::ranges::count_if(rows, [](std::int64_t count) { return count > 0; }) + parts - 1) / parts;
    for (plan::Op& op : ops)
      if (op.work == plan::Work::grouped_gemm && (!wgrad_alone || op.pass == cost::GemmPass::wgrad))
        op.launches = static_cast<std::uint16_t>(products);
  };
  const bool selects = run.backward == "redispatch";
  set(block.forward, run.chunk_rows, run.chunks);
  set(block.backward, selects ? run.retained_rows : run.chunk_rows, selects ? 1 : run.chunks);
}

}  // namespace

plan::Plan layer_plan(const LayerRun& run, const topology::HardwareProfile& profile) {
  plan::Plan plan = plan::make_plan(layer_scenario(run, profile), 0, 1);
  plan.decisions = {decision_of(run)};
  plan.decision_of = {0};
  plan::sum_rows(plan);
  plan.blocks = {plan::make_routed_block(*plan.scenario, plan.shape, plan::treatment_of(plan.decisions.front()))};
  launch_apart(run, plan.blocks.front());
  plan::Visit forward;
  forward.layer = forward.moe_layer = 0;
  plan::Visit backward = forward;
  backward.direction = schedule::Direction::backward;
  plan.programs = {plan::Program{0, 1, {forward, backward}}};
  return plan;
}

LayerPrediction predict_layer(const LayerRun& run, const topology::HardwareProfile& profile) {
  MOEPLAN_CHECK(run.status == measurements::Status::ok, "a run that was set aside has no prediction");
  const plan::Plan plan = layer_plan(run, profile);
  LayerPrediction result;
  memory::Walk walk(plan, 0);
  walk.run([&](std::size_t visit, std::size_t, const memory::Walk::Live& live) {
    std::int64_t& peak = visit == 0 ? result.forward_peak_bytes : result.backward_peak_bytes;
    peak = std::max(peak, live.bytes);
  });
  result.peak_reserved_bytes = reserved_bytes(plan);
  const auto clocks = engine::op_clocks(plan, 0);
  result.forward_s = clocks[0].back().end_s;
  result.backward_s = clocks[1].back().end_s - result.forward_s;
  return result;
}

}  // namespace moeplan::search
