#include <algorithm>

#include "plan/blocks.h"
#include "plan/group_transfers.h"
#include "plan/linear_input.h"
#include "plan/matrices.h"

// The optimizer's step.
namespace moeplan::plan {

namespace {

constexpr std::int64_t kD = Shape::kElement;
constexpr auto kTp = topology::GroupKind::tp;
constexpr std::int64_t kFloat = 4;
constexpr int kNewtonSchulz = 5;  // iterations of Muon, as published and Megatron's default

// Momentum of the owned matrices, then for each matrix X, its rows the shorter side m (n the longer): five times
// A = X X^T, B = b A + c A A, X = a X + B X, in bf16; the update is fp32. Matrices are taken one by one, so that the
// transients are those of the largest.
void orthogonalise(Builder& b, const scenario::Scenario& scenario, std::int64_t stage, std::int64_t owned) {
  const auto& optimizer = scenario.optimizer;
  b.memory("Muon momentum", Family::optimizer,
           static_cast<double>(owned * (2 * optimizer.main_grad_bytes + 2 * optimizer.exp_avg_bytes)), 4, {});
  const auto matrices = stage_matrices(scenario, stage);
  if (matrices.empty()) return;
  const Shards shards = shards_of(scenario);
  const std::int64_t m = matrices.front().shorter(), n = matrices.front().longer();
  const auto transient = [&](const char* name, std::int64_t bytes) {
    return b.tensor(TensorKind::optimizer, name, bytes);
  };
  const TensorId update = transient("Muon update (fp32)", m * n * kFloat);
  const TensorId x = transient("Newton-Schulz X", m * n * kD), next = transient("Newton-Schulz next X", m * n * kD);
  const TensorId gram = transient("Newton-Schulz A", m * m * kD), square = transient("Newton-Schulz B", m * m * kD);
  const TensorId result = transient("Muon orthogonal update (fp32)", m * n * kFloat);
  const TensorId scaled = transient("Muon scaled update (fp32)", m * n * kFloat);
  double seconds = 0, moved = 0;
  std::int64_t count = 0;
  for (const Matrix& matrix : matrices) {
    const std::int64_t ranks = matrix.expert ? shards.experts : shards.dense;
    const std::int64_t mine = (matrix.count + ranks - 1) / ranks, rows = matrix.shorter(), columns = matrix.longer();
    const auto& profile = scenario.hardware;
    seconds += static_cast<double>(mine * kNewtonSchulz) *
               (cost::gemm_time_s({rows, rows, columns}, profile) + cost::gemm_time_s({rows, rows, rows}, profile) +
                cost::gemm_time_s({rows, columns, rows}, profile));
    // Normalised, narrowed, widened, scaled, applied to the master.
    moved += static_cast<double>(mine * rows * columns) *
             (8 * kFloat + 2 * kD + 2 * static_cast<double>(optimizer.master_bytes));
    count += mine;
  }
  const auto launches = static_cast<int>(std::min<std::int64_t>(count * 3 * kNewtonSchulz, 65'535));
  b.fixed("Newton-Schulz", Family::optimizer, seconds, launches, {update, x, next, gram, square},
          {x, next, gram, square});
  b.memory("Muon update", Family::optimizer, moved, static_cast<int>(std::min<std::int64_t>(count * 6, 65'535)),
           {result, scaled}, {update, result, scaled});
}

// fp8 parameters: each rank casts its share of the masters (mxfp8: everybody all of it, from what was gathered); then
// the other layout of what was gathered is made.
void quantise_parameters(Builder& b, const scenario::Scenario& scenario, std::int64_t owned, std::int64_t linear,
                         std::int64_t whole) {
  const ParameterFormat format = parameter_format(scenario);
  if (format.two_gathered) {
    b.memory("quantise weights", Family::optimizer,
             static_cast<double>(linear * kD + format.operands.weight_bytes(linear)), 12, {});
    return;
  }
  const double share = static_cast<double>(owned) / static_cast<double>(whole);
  const std::int64_t reads = format.operands.amax_pass ? 2 : 1;
  b.memory("quantise owned parameters", Family::optimizer,
           share * static_cast<double>(linear * (reads * scenario.optimizer.master_bytes + 1)), 4, {});
  if (format.operands.two_copies && !scenario.optimizer.shards_parameters())
    b.memory("transpose weights", Family::optimizer, static_cast<double>(2 * linear), 12, {});
}

// Of one parameter, master and moments.
std::int64_t state_bytes(const scenario::Optimizer& optimizer) {
  return optimizer.master_bytes + optimizer.exp_avg_bytes + optimizer.exp_avg_sq_bytes;
}

// Adam in the memory of the node's host, which its GPUs share: reads the fp32 gradient and the states, writes them and
// the parameter. Nothing where the profile does not state what that memory gives.
double host_update_s(const scenario::Scenario& scenario, double parameters) {
  const auto& bandwidth = scenario.hardware.host.memory_bandwidth;
  if (!bandwidth) return 0;
  const auto& optimizer = scenario.optimizer;
  const std::int64_t state = state_bytes(optimizer);
  const auto sharers = static_cast<double>(
      std::min(static_cast<std::int64_t>(scenario.hardware.network.gpus_per_node.value), scenario.layout.world));
  return parameters * static_cast<double>(kFloat + 2 * state + kD) * sharers / bandwidth->value;
}

}  // namespace

Block make_optimizer_block(const scenario::Scenario& scenario, std::int64_t stage) {
  const StageParameters parameters = stage_parameters(scenario, stage);
  const std::int64_t linear = stage_linear_parameters(scenario, stage);
  const std::int64_t dense_parameters = parameters.dense, expert_parameters = parameters.experts;
  Block block;
  block.name = "optimizer";
  const Shape shape = make_shape(scenario);
  Builder b(block, scenario, shape);
  const auto& optimizer = scenario.optimizer;
  const auto& layout = scenario.layout;
  const bool muon = optimizer.orthogonalises();
  // Muon needs whole gradients, wherever states lie.
  const bool sharded = optimizer.shards_states(), scattered = sharded && !muon;
  const Shards shards = shards_of(scenario);
  const std::int64_t owned_dense = dense_parameters / shards.dense, owned_experts = expert_parameters / shards.experts;
  const OwnedParameters tensors = muon ? owned_by_muon(scenario, stage) : OwnedParameters{};
  const bool mirrored = scenario.stages.copies() > 1;
  const std::int64_t divided = owned_dense + owned_experts;  // over the replicas of one rank of the pipeline
  const std::int64_t owned = muon      ? tensors.muon + tensors.adam
                             : sharded ? divided / scenario.stages.copies()
                                       : divided;
  const std::int64_t sent = optimizer.reduce_bytes();
  const auto reduce = scattered ? cost::Collective::reduce_scatter : cost::Collective::all_reduce;
  b.into_forward();
  // With sequence parallelism each tensor-parallel rank saw its own tokens, so gradients of replicated parameters are
  // summed first.
  if (layout.tp > 1)
    b.collective("reduce gradients of replicated parameters", kTp, cost::Collective::all_reduce,
                 parameters.replicated * sent, {});
  constexpr auto kDp = topology::GroupKind::dp, kEdp = topology::GroupKind::edp;
  const bool reduced = optimizer.shards_gradients() || scenario.training.overlap_grad_reduce;
  if (!reduced) {
    b.collective("reduce gradients", kDp, reduce, dense_parameters * sent, {}).members = scattered ? shards.dense : 0;
    b.collective("reduce expert gradients", kEdp, reduce, expert_parameters * sent, {}).members =
        scattered ? shards.experts : 0;
  }
  // Where a part of the replicas divides, the parts are summed.
  if (scattered && shards.dense < layout.dp() * layout.cp) {
    b.collective("sum gradients over shard groups", kDp, cost::Collective::all_reduce, owned_dense * sent, {});
    b.collective("sum expert gradients over shard groups", kEdp, cost::Collective::all_reduce, owned_experts * sent,
                 {});
  }
  if (mirrored) {
    Op& sum =
        b.collective("sum gradients with the mirrored rank", topology::GroupKind::mirror, reduce, divided * sent, {});
    if (reduced) sum.joins = stream_bit(Stream::reduce);
  }
  Op& gradient_norm =
      b.memory("gradient norm", Family::optimizer, static_cast<double>(owned * optimizer.main_grad_bytes), 4, {});
  if (reduced) gradient_norm.joins = stream_bit(Stream::reduce);
  Op& norm = b.collective("gradient norm all-reduce", topology::GroupKind::world, cost::Collective::all_reduce, 8, {});
  norm.host_sync = true;  // the host checks the norm before the step
  const std::int64_t state = state_bytes(optimizer);
  // The step computes in fp32: gradients kept in bf16 are widened for the owned shard.
  const TensorId widened = b.tensor(TensorKind::gradients, "fp32 copy of the owned gradients",
                                    optimizer.main_grad_bytes < 4 ? owned * 4 : 0);
  const double host = optimizer.offload_fraction;
  const std::int64_t by_adam = muon ? tensors.adam : owned;
  b.memory("Adam", Family::optimizer,
           (1 - host) * static_cast<double>(by_adam * (2 * optimizer.main_grad_bytes + 2 * state + kD)), 12, {widened});
  if (muon) orthogonalise(b, scenario, stage, tensors.muon);
  b.last().frees.push_back(widened);
  if (host > 0) {  // gradients to the host, the update there, updated parameters back
    b.host_copy("gradients to the host", Family::optimizer,
                host * static_cast<double>(owned * optimizer.main_grad_bytes));
    b.fixed("Adam on the host", Family::optimizer, host_update_s(scenario, host * static_cast<double>(by_adam)), 1, {});
    b.host_copy("parameters from the host", Family::optimizer, host * static_cast<double>(owned * kD));
  }
  if (mirrored && sharded)
    b.collective("gather parameters of the mirrored rank", topology::GroupKind::mirror, cost::Collective::all_gather,
                 divided * kD, {});
  if (sharded && !optimizer.shards_parameters() && !scenario.training.overlap_param_gather) {
    const std::int64_t dense_linear = std::max<std::int64_t>(linear - expert_parameters, 0);
    const TransferBytes bytes = gathered_bytes({dense_parameters, expert_parameters, dense_linear}, scenario);
    // Whole matrices do not lie in one buffer: they are gathered into tensors, and copied from there.
    const TensorId flat =
        b.tensor(TensorKind::communication, "gathered parameters, flat", muon && shards.dense > 1 ? bytes.dense : 0);
    const TensorId flat_experts = b.tensor(TensorKind::communication, "gathered expert parameters, flat",
                                           muon && shards.experts > 1 ? bytes.experts : 0);
    b.collective("gather parameters", kDp, cost::Collective::all_gather, bytes.dense, {flat}, {flat}).members =
        shards.dense;
    b.collective("gather expert parameters", kEdp, cost::Collective::all_gather, bytes.experts, {flat_experts},
                 {flat_experts})
        .members = shards.experts;
  }
  const OperandFormat format = operand_format(scenario);
  if (format.narrow && format.saved && scenario.training.fp8_param_gather) {
    quantise_parameters(b, scenario, owned, linear, parameters.dense + parameters.experts);
  } else if (format.narrow &&
             format.saved)  // the first microbatch of the next step quantises, the others find the copies
    b.memory("quantise weights", Family::optimizer,
             static_cast<double>((format.amax_pass ? 2 : 1) * linear * kD + format.weight_bytes(linear)), 12, {});
  // The buffers are cleared for the next step.
  b.memory("zero gradients", Family::optimizer,
           static_cast<double>((optimizer.shards_gradients() ? owned : dense_parameters + expert_parameters) *
                               optimizer.main_grad_bytes),
           2, {});
  return block;
}

}  // namespace moeplan::plan
