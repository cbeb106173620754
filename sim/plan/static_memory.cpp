#include "plan/static_memory.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "base/checked.h"
#include "model/parameters.h"
#include "plan/library_memory.h"
#include "plan/linear_input.h"
#include "plan/matrices.h"
#include "plan/shape.h"
#include "plan/side_streams.h"
#include "plan/write_programs.h"
#include "policy/closed_form.h"
#include "policy/lrmoe.h"
#include "schedule/schedule.h"

namespace moeplan::plan {

namespace {

constexpr std::int64_t kD = Shape::kElement;

policy::ClosedFormShape closed_form_shape(const scenario::Scenario& scenario) {
  const auto& arch = scenario.model;
  policy::ClosedFormShape shape;
  shape.hidden = arch.hidden;
  shape.heads = arch.attention.heads;
  shape.kv_heads = arch.attention.kind == model::AttentionKind::mla ? arch.attention.heads : arch.attention.kv_heads;
  shape.head_dim = arch.attention.qk_dim();
  shape.experts = arch.moe.experts;
  shape.expert_ffn = arch.moe.ffn;
  shape.tp = scenario.layout.tp;
  shape.cp = scenario.layout.cp;
  shape.micro_batch = scenario.training.micro_batch_size;
  shape.seq = scenario.training.seq_length;
  return shape;
}

// Rows of this program are what a rank receives after the tp split, so the row term is not divided again.
double row_bytes(const scenario::Scenario& scenario) {
  auto shape = closed_form_shape(scenario);
  shape.tp = shape.cp = 1;
  return policy::row_bytes(shape);
}

bool full(const scenario::Scenario& scenario) {
  return scenario.recompute.granularity == scenario::RecomputeGranularity::full;
}

// Microbatches whose forward has run and whose backward has not, at most: what the schedule itself does.
double in_flight(const scenario::Scenario& scenario, std::int64_t stage) {
  // Of several chunks each holds its share of the stage's layers.
  return static_cast<double>(schedule::most_in_flight(stage_slots(scenario, stage))) /
         static_cast<double>(scenario.stages.chunks());
}

// Token terms of the closed form: of one layer of each kind that the stage has, and of all its layers.
struct TokenTerms {
  double dense = 0, moe = 0, all = 0;
};

TokenTerms token_terms(const scenario::Scenario& scenario, std::int64_t stage) {
  const auto shape = closed_form_shape(scenario);
  TokenTerms terms;
  for (const std::int32_t l : scenario.stages.layers_of(stage)) {
    if (scenario.model.layers[static_cast<std::size_t>(l)] == model::LayerKind::moe) {
      terms.moe = policy::token_term_bytes(shape);
      terms.all += terms.moe;
    } else {
      terms.dense = policy::dense_token_term_bytes(shape, scenario.model.dense_ffn);
      terms.all += terms.dense;
    }
  }
  return terms;
}

// Token-level activations beside the routed rows of a MoE layer: all layers in flight, or with full recompute that
// layer's own (m_g = 1, as the paper counts it; of a group of layers all of them).
double token_bytes(const scenario::Scenario& scenario, std::int64_t stage) {
  const TokenTerms terms = token_terms(scenario, stage);
  return full(scenario) ? std::min(terms.all, terms.moe * static_cast<double>(scenario.recompute.uniform_layers))
                        : terms.all * in_flight(scenario, stage);
}

}  // namespace

StageParameters stage_parameters(const scenario::Scenario& scenario, std::int64_t stage) {
  const auto& arch = scenario.model;
  const auto& layout = scenario.layout;
  const model::Sharding sharding{layout.tp, layout.ep, layout.etp};
  StageParameters sum;
  for (const std::int32_t l : scenario.stages.layers_of(stage)) {
    const auto layer = model::rank_layer_parameters(arch, arch.layers[static_cast<std::size_t>(l)], sharding);
    sum.dense += layer.dense;
    sum.experts += layer.experts;
    const auto whole = model::layer_parameters(arch, arch.layers[static_cast<std::size_t>(l)]);
    sum.replicated += whole.attention_replicated + whole.norms + whole.router + whole.shared_gate;
  }
  const std::int64_t matrix = make_shape(scenario).vocab_rank * arch.hidden;
  const bool first = scenario.stages.embedding_on(stage), last = scenario.stages.loss_on(stage);
  const std::int64_t mtp = scenario.stages.mtp_on(stage);
  const auto mtp_block = model::rank_mtp_parameters(arch, sharding);
  sum.dense += mtp * mtp_block.dense;
  sum.experts += mtp * mtp_block.experts;
  if (first) sum.dense += matrix + arch.learned_positions * arch.hidden;
  if (last) sum.dense += arch.hidden;
  if (last) sum.replicated += arch.hidden;
  if (last && !(arch.tied_embeddings && first)) sum.dense += matrix;
  // An MTP block looks tokens up again: a stage without the embedding keeps a copy of it.
  if (mtp > 0 && !first && !(arch.tied_embeddings && last)) sum.dense += matrix;
  return sum;
}

std::int64_t stage_linear_parameters(const scenario::Scenario& scenario, std::int64_t stage) {
  const auto& arch = scenario.model;
  const auto& layout = scenario.layout;
  const auto of_layer = [&](model::LayerKind kind) {
    const auto rank = model::rank_layer_parameters(arch, kind, {layout.tp, layout.ep, layout.etp});
    const auto whole = model::layer_parameters(arch, kind);
    return rank.dense + rank.experts - whole.norms - whole.router - whole.shared_gate;
  };
  std::int64_t sum = 0;
  for (const std::int32_t l : scenario.stages.layers_of(stage))
    sum += of_layer(arch.layers[static_cast<std::size_t>(l)]);
  const std::int64_t mtp = scenario.stages.mtp_on(stage);
  return mtp > 0 ? sum + mtp * of_layer(arch.mtp_kind()) : sum;
}

Shards shards_of(const scenario::Scenario& scenario) {
  const auto& layout = scenario.layout;
  const auto& optimizer = scenario.optimizer;
  if (!optimizer.shards_states()) return {};
  const std::int64_t replicas = layout.dp() * layout.cp;
  const std::int64_t group = optimizer.shard_group > 0 ? optimizer.shard_group : replicas;
  // Experts have fewer replicas; a group that is a part of the dense replicas is the same part of theirs.
  return {group, std::max<std::int64_t>(1, layout.edp() * group / replicas)};
}

namespace {

bool torchtitan_shards(const scenario::Scenario& scenario) {
  return scenario.optimizer.shards_parameters() && scenario.training.framework == scenario::Framework::torchtitan;
}

}  // namespace

bool keeps_gathered(const scenario::Scenario& scenario) {
  return torchtitan_shards(scenario) && scenario.layout.pp > 1;
}

bool makes_gradient_shards(const scenario::Scenario& scenario) {
  return torchtitan_shards(scenario) && scenario.layout.pp == 1 && !scenario.memory.given_static_bytes;
}

StaticMemory static_memory(const scenario::Scenario& scenario, std::int64_t stage) {
  StaticMemory memory;
  const auto& layout = scenario.layout;
  const auto& optimizer = scenario.optimizer;
  auto at = [](BytesByKind& bytes, TensorKind kind) -> std::int64_t& { return bytes[static_cast<std::size_t>(kind)]; };
  if (scenario.memory.given_static_bytes) {
    at(memory.load, TensorKind::given_static) = *scenario.memory.given_static_bytes;
  } else {
    const StageParameters p = stage_parameters(scenario, stage);
    const Shards shards = shards_of(scenario);
    // Muon keeps no second moment of matrices, and deals whole ones out. Of two ranks that hold the same stages each
    // owns half of what one would.
    const bool muon = optimizer.orthogonalises();
    const std::int64_t copies_held = optimizer.shards_states() ? scenario.stages.copies() : 1;
    const OwnedParameters tensors = muon ? owned_by_muon(scenario, stage) : OwnedParameters{};
    const std::int64_t owned = muon ? tensors.muon + tensors.adam
                                    : base::ceil_div(p.dense, shards.dense * copies_held) +
                                          base::ceil_div(p.experts, shards.experts * copies_held);
    const std::int64_t whole = p.dense + p.experts;
    // Torchtitan's shards are the fp32 masters themselves; the others keep a bf16 copy beside them.
    const bool master_is_parameter = torchtitan_shards(scenario);
    const std::int64_t copies = optimizer.shards_parameters() ? (master_is_parameter ? 0 : owned) : whole;
    const auto on_device = [&](std::int64_t bytes) {
      const auto host =
          static_cast<std::int64_t>(std::llround(optimizer.offload_fraction * static_cast<double>(bytes)));
      memory.host_bytes += host;
      return bytes - host;
    };
    const ParameterFormat format = parameter_format(scenario);
    const std::int64_t linear = stage_linear_parameters(scenario, stage);
    at(memory.load, TensorKind::parameters) = kD * copies + (master_is_parameter ? optimizer.master_bytes * owned : 0);
    if (!optimizer.shards_parameters()) {
      at(memory.load, TensorKind::parameters) += format.held(linear) - kD * linear;
    } else if (format.quantised) {  // the share of linear layers in what is owned
      const std::int64_t owned_linear = static_cast<std::int64_t>(
          static_cast<double>(owned) * static_cast<double>(linear) / static_cast<double>(whole));
      at(memory.load, TensorKind::parameters) += format.shard(owned_linear) - kD * owned_linear;
    }
    if (keeps_gathered(scenario))
      at(memory.load, TensorKind::parameters) += kD * (whole - linear) + format.whole(linear);
    const std::int64_t summed = optimizer.shards_gradients() ? owned : whole;
    at(memory.load, TensorKind::gradients) = keeps_gathered(scenario)          ? optimizer.reduce_bytes() * whole
                                             : makes_gradient_shards(scenario) ? 0
                                                                               : optimizer.main_grad_bytes * summed;
    at(memory.load, TensorKind::optimizer) = master_is_parameter ? 0 : on_device(optimizer.master_bytes * owned);
    at(memory.moments, TensorKind::optimizer) =
        on_device(optimizer.exp_avg_bytes * owned + optimizer.exp_avg_sq_bytes * (muon ? tensors.adam : owned));
  }
  const auto& overheads = scenario.hardware.overheads;
  at(memory.load, TensorKind::workspace) = product_workspace_bytes(scenario, stage);
  // Made in the first backward, there ever after.
  at(memory.moments, TensorKind::workspace) = returned_gradient_bytes(scenario, stage);
  at(memory.moments, TensorKind::communication) = gather_buffer_bytes(scenario, stage);
  at(memory.moments, TensorKind::workspace) += graph_input_bytes(scenario, stage);
  memory.context_bytes = static_cast<std::int64_t>(overheads.context.value);
  memory.communicators = 1;  // the world group
  for (std::int64_t degree :
       {layout.tp, layout.cp, layout.ep, layout.etp, layout.dp() * layout.cp, layout.edp(), layout.pp})
    if (degree > 1) ++memory.communicators;
  memory.dispatcher_bytes = dispatch_buffer_bytes(scenario);
  memory.communicator_bytes = user_buffer_bytes(scenario);
  memory.communicator_bytes += memory.communicators * static_cast<std::int64_t>(overheads.communicator.value);
  return memory;
}

std::int64_t StaticMemory::steady_bytes() const {
  std::int64_t sum = 0;
  for (std::size_t kind = 0; kind < kTensorKinds; ++kind)
    if (static_cast<TensorKind>(kind) != TensorKind::workspace &&
        static_cast<TensorKind>(kind) != TensorKind::communication)
      sum += load[kind] + moments[kind];
  return sum;
}

double memfine_max_rows(const scenario::Scenario& scenario, const policy::MemfineSettings& settings,
                        std::int64_t stage) {
  const double capacity = settings.planning_capacity_bytes > 0 ? settings.planning_capacity_bytes
                                                               : scenario.hardware.device.memory_capacity.value;
  // Rows of the chunk ahead have arrived while this one is computed.
  const double ahead = settings.pipelined ? static_cast<double>(kD * scenario.model.hidden) : 0.0;
  const double per_row = settings.bytes_per_row > 0 ? settings.bytes_per_row : row_bytes(scenario) + ahead;
  // FCDA recomputes the routed part, so one chunk of one layer exists at a time: its in-flight factor is 1.
  return policy::max_rows(capacity, settings.alpha, static_cast<double>(static_memory(scenario, stage).steady_bytes()),
                          token_bytes(scenario, stage), per_row, 1.0);
}

double lrmoe_layers_held(const scenario::Scenario& scenario, std::int64_t stage) {
  const bool kept = scenario.policies.lrmoe && scenario.policies.lrmoe->mode == policy::LrmoeSettings::Mode::kept;
  const bool module = scenario.recompute.granularity == scenario::RecomputeGranularity::selective &&
                      scenario.recompute.has(scenario::RecomputeModule::moe);
  if (!kept || full(scenario) || module) return 1.0;
  std::int64_t layers = 0;
  for (const std::int32_t l : scenario.stages.layers_of(stage))
    layers += scenario.model.layers[static_cast<std::size_t>(l)] == model::LayerKind::moe ? 1 : 0;
  return std::max(1.0, static_cast<double>(layers) * in_flight(scenario, stage));
}

double lrmoe_row_bytes(const scenario::Scenario& scenario, std::int64_t stage) {
  const std::int64_t h = scenario.model.hidden, g = scenario.model.moe.ffn;
  return policy::redispatch_row_bytes(h, g, kD) +
         (lrmoe_layers_held(scenario, stage) - 1.0) * policy::kept_row_bytes(h, g, kD);
}

double lrmoe_memory_rows(const scenario::Scenario& scenario, std::int64_t stage) {
  const StaticMemory memory = static_memory(scenario, stage);
  const double free = static_cast<double>(scenario.usable_bytes() - memory.steady_bytes() - memory.context_bytes -
                                          memory.communicator_bytes - memory.dispatcher_bytes) -
                      token_bytes(scenario, stage);
  return std::max(0.0, std::floor(free / lrmoe_row_bytes(scenario, stage)));
}

double closed_form_activation_bytes(const scenario::Scenario& scenario, std::int64_t stage, double routed_rows,
                                    bool routed_recomputed) {
  const double flights = routed_recomputed || full(scenario) ? 1.0 : in_flight(scenario, stage);
  const double with_rows = token_bytes(scenario, stage) + row_bytes(scenario) * routed_rows * flights;
  // Full recompute holds one layer at a time: the larger kind.
  return full(scenario) ? std::max(with_rows, token_terms(scenario, stage).dense) : with_rows;
}

}  // namespace moeplan::plan
