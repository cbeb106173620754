#include "plan/library_memory.h"

#include <set>
#include <utility>

#include "plan/shape.h"
#include "plan/write_programs.h"
#include "schedule/schedule.h"

namespace moeplan::plan {

namespace {

constexpr std::int64_t kD = Shape::kElement;
constexpr std::int64_t kThreads = 2;         // that multiply by PyTorch: forward's, and autograd's
constexpr std::int64_t kGroupedStreams = 4;  // Transformer Engine 2: streams of a grouped product

using MatrixShape = std::pair<std::int64_t, std::int64_t>;

bool megatron(const scenario::Scenario& scenario) {
  return scenario.training.framework == scenario::Framework::megatron;
}

void add_attention(std::set<MatrixShape>& shapes, const scenario::Scenario& scenario, const Shape& s) {
  const auto& a = scenario.model.attention;
  const std::int64_t h = s.hidden;
  shapes.emplace(h, s.heads_rank * a.v_dim());
  if (a.kind != model::AttentionKind::mla) {
    shapes.emplace((s.heads_rank + 2 * s.kv_heads_rank) * a.head_dim, h);
    return;
  }
  if (a.q_lora_rank > 0) shapes.emplace(a.q_lora_rank, h);
  shapes.emplace(s.heads_rank * a.qk_dim(), a.q_lora_rank > 0 ? a.q_lora_rank : h);
  shapes.emplace(a.kv_lora_rank + a.qk_rope_dim, h);
  shapes.emplace(s.heads_rank * (a.qk_nope_dim + a.v_head_dim), a.kv_lora_rank);
}

void add_mlp(std::set<MatrixShape>& shapes, std::int64_t width, const Shape& s) {
  if (width == 0) return;
  shapes.emplace(s.gates * width, s.hidden);
  shapes.emplace(s.hidden, width);
}

bool has_moe(const scenario::Scenario& scenario, std::int64_t stage) {
  for (const std::int32_t l : scenario.stages.layers_of(stage))
    if (scenario.model.layers[static_cast<std::size_t>(l)] == model::LayerKind::moe) return true;
  return scenario.stages.mtp_on(stage) > 0 && scenario.model.mtp_kind() == model::LayerKind::moe;
}

}  // namespace

std::int64_t product_workspace_bytes(const scenario::Scenario& scenario, std::int64_t stage) {
  const auto& overheads = scenario.hardware.overheads;
  const auto usual = static_cast<std::int64_t>(overheads.workspace.value);
  const std::int64_t one = scenario.memory.cublas_workspace_bytes.value_or(usual);
  if (!megatron(scenario)) return one * kThreads;
  const std::int64_t engine = overheads.transformer_engine_workspace
                                  ? static_cast<std::int64_t>(overheads.transformer_engine_workspace->value)
                                  : usual;
  const bool moe = has_moe(scenario, stage);
  const bool loss = scenario.stages.loss_on(stage) || scenario.stages.mtp_on(stage) > 0;
  const std::int64_t torch = moe || loss || scenario.training.unfused_attention ? kThreads : 0;
  return one * torch + engine * (1 + (moe && scenario.dispatch.grouped_gemm ? kGroupedStreams : 0));
}

std::int64_t returned_gradient_bytes(const scenario::Scenario& scenario, std::int64_t stage) {
  if (!megatron(scenario) || scenario.optimizer.shards_gradients()) return 0;
  if (!scenario.optimizer.gradient_accumulation_fusion) return 0;
  const Shape s = make_shape(scenario);
  const auto& model = scenario.model;
  std::set<MatrixShape> shapes;
  const auto add_layer = [&](model::LayerKind kind) {
    add_attention(shapes, scenario, s);
    if (kind == model::LayerKind::moe) {
      add_mlp(shapes, model.moe.ffn / s.etp, s);
      add_mlp(shapes, model.moe.shared_ffn / s.tp, s);
    } else {
      add_mlp(shapes, model.dense_ffn / s.tp, s);
    }
  };
  for (const std::int32_t l : scenario.stages.layers_of(stage)) add_layer(model.layers[static_cast<std::size_t>(l)]);
  if (scenario.stages.mtp_on(stage) > 0) {
    add_layer(model.mtp_kind());
    shapes.emplace(s.hidden / s.tp, 2 * s.hidden);
  }
  std::int64_t elements = 0;
  for (const auto& [rows, columns] : shapes) elements += rows * columns;
  return kD * elements;
}

std::int64_t graph_input_bytes(const scenario::Scenario& scenario, std::int64_t stage) {
  if (scenario.training.cuda_graphs != scenario::CudaGraphs::local) return 0;
  const Shape s = make_shape(scenario);
  const auto layers =
      static_cast<std::int64_t>(scenario.stages.layers_of(stage).size()) + scenario.stages.mtp_on(stage);
  // Of virtual stages each has its share of the layers.
  const std::int64_t flights = schedule::most_in_flight(stage_slots(scenario, stage));
  return 2 * s.tokens_local * s.hidden * kD * layers * flights / scenario.stages.vpp();
}

std::int64_t gather_buffer_bytes(const scenario::Scenario& scenario, std::int64_t stage) {
  const Shape s = make_shape(scenario);
  const bool loss = scenario.stages.loss_on(stage) || scenario.stages.mtp_on(stage) > 0;
  return megatron(scenario) && s.tp > 1 && loss ? s.tokens * s.hidden * kD : 0;
}

}  // namespace moeplan::plan
