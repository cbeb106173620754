#include "scenario/notes.h"

#include <fmt/core.h>

#include <utility>

#include "cost/dispatch.h"

namespace moeplan::scenario {
namespace {

using Lines = std::vector<std::string>;
using Rule = policy::MemfineSettings::Rule;

void assume_training(const Raw& raw, const Scenario& scenario, Lines& lines) {
  if (!raw.places.stated("training.precision")) lines.push_back("training.precision is not stated: bf16");
  if (raw.training.framework == Framework::torchtitan && !raw.places.stated("training.compile")) {
    lines.push_back("training.compile is not stated: false, torchtitan's default: modules run operator by operator");
  }
  if (raw.training.framework == Framework::torchtitan && !raw.training.compile &&
      !raw.places.stated("training.cross_entropy_loss_fusion")) {
    lines.push_back("training.cross_entropy_loss_fusion is not stated: false, torchtitan's loss in fp32, not compiled");
  }
  if (raw.training.framework == Framework::torchtitan && !raw.places.stated("memory.expandable_segments")) {
    lines.push_back("memory.expandable_segments is not stated: true, as torchtitan's run_train.sh sets it");
  }
  if (!raw.places.stated("training.schedule") && scenario.layout.pp > 1) {
    lines.push_back("training.schedule is not stated: " + scenario.training.schedule);
  }
  if (scenario.stages.copies() > 1 && scenario.optimizer.shards_states()) {
    lines.push_back(scenario.training.schedule +
                    ": optimizer states of a stage are divided over the replicas of both ranks that hold it");
  }
  if (scenario.layout.tp > 1) {
    if (!raw.places.stated("parallel.sequence_parallel")) {
      lines.push_back("parallel.sequence_parallel is not stated: on, as tensor_model_parallel_size is above 1");
    }
    if (!raw.places.stated("parallel.expert_tensor_parallel_size")) {
      lines.push_back(
          "parallel.expert_tensor_parallel_size is not stated: 1 (Megatron takes tensor_model_parallel_size)");
    }
  }
}

void assume_optimizer(const Raw& raw, Lines& lines) {
  if (!raw.places.stated("optimizer.sharding")) {
    const bool titan = raw.training.framework == Framework::torchtitan;
    lines.push_back(titan ? "optimizer.sharding is not stated: fsdp2, as training.framework is torchtitan"
                          : "optimizer.sharding is not stated: zero1 (Megatron's distributed optimizer)");
  }
  for (const char* key : {"main_grads_dtype", "exp_avg_dtype", "exp_avg_sq_dtype", "main_params_dtype"}) {
    if (raw.places.stated(std::string("optimizer.") + key)) continue;
    lines.push_back("types of the optimizer that are not stated: fp32");
    return;
  }
}

void assume_memory(const Raw& raw, const Scenario& scenario, Lines& lines) {
  if (!raw.places.stated("memory.usable_fraction")) {
    lines.push_back(fmt::format("memory.usable_fraction is not stated: {}", scenario.memory.usable_fraction));
  }
  if (raw.granularity == RecomputeGranularity::full && !raw.places.stated("memory.recompute_method")) {
    lines.push_back(raw.uniform_layers > 1 ? "memory.recompute_method is not stated: uniform"
                                           : "memory.recompute_method is not stated: uniform, each layer by itself");
  }
  if (raw.granularity == RecomputeGranularity::selective && !raw.places.stated("memory.recompute_modules")) {
    lines.push_back("memory.recompute_modules is not stated: core_attn, Megatron's default");
  }
  if (!raw.granularity && scenario.recompute.granularity == RecomputeGranularity::full) {
    lines.push_back(
        "memory.recompute_granularity is not stated: full, as moe.policies.memfine.recompute: layer needs it");
  }
}

void assume_policies(const Raw& raw, Lines& lines) {
  if (raw.policies.memfine) {
    const bool adaptive = raw.policies.memfine->rule == Rule::adaptive;
    if (!raw.places.stated("moe.policies.memfine.rule")) {
      lines.push_back("moe.policies.memfine.rule is not stated: adaptive");
    }
    if (adaptive && !raw.places.stated("moe.policies.memfine.planning_capacity")) {
      lines.push_back("moe.policies.memfine.planning_capacity is not stated: the capacity of the hardware profile");
    }
    if (adaptive && !raw.places.stated("moe.policies.memfine.bytes_per_row")) {
      lines.push_back("moe.policies.memfine.bytes_per_row is not stated: that of the closed form");
    }
  }
  if (raw.policies.lrmoe) {
    if (raw.policies.lrmoe->mode == policy::LrmoeSettings::Mode::kept) {
      lines.push_back("LRMoE scores: router weights alone (mode A selects before there are gradients)");
    } else {
      lines.push_back(fmt::format("LRMoE scores: norms of gradients and inputs are log-normal with sigma {}",
                                  raw.policies.lrmoe->score_sigma));
    }
  }
}

// What is read and kept, and does nothing to the figures yet: never in silence.
void assume_recorded(const Scenario& scenario, Lines& lines) {
  if (scenario.optimizer.offload_fraction > 0 && !scenario.hardware.host.memory_bandwidth) {
    lines.push_back("the update on the host takes no time: the profile " + scenario.hardware.id +
                    " states no host.memory_bandwidth");
  }
  if (scenario.training.tp_comm_overlap) {
    if (scenario.layout.tp == 1)
      lines.push_back("training.tp_comm_overlap does nothing: parallel.tp is 1");
    else if (scenario.training.framework != Framework::megatron)
      lines.push_back("training.tp_comm_overlap is recorded; it is not simulated in this version but under Megatron");
  }
  if (scenario.training.cuda_graphs != CudaGraphs::none) {
    lines.push_back("CUDA graphs save the host's launches; the first iteration runs without them");
  }
}

void assume_precision(const Scenario& scenario, Lines& lines) {
  const Training& training = scenario.training;
  if (training.precision == Precision::bf16) return;
  if (training.precision == Precision::fp16) {
    lines.push_back("training.precision: fp16 has the sizes and rates of bf16");
    return;
  }
  if (training.framework != Framework::megatron) return;
  if (training.fp8_param_gather) {
    lines.push_back(std::string("narrow precision: linear layers' parameters are held in fp8 alone, gathered in ") +
                    (training.precision == Precision::mxfp8 ? "bf16 through the gradient buffer" : "fp8"));
  } else {
    lines.push_back(
        "narrow precision: bf16 parameters beside their quantised copies, which are kept over the microbatches of a "
        "step; "
        "parameters are gathered in bf16");
  }
  if (training.precision == Precision::fp8_rowwise) {
    lines.push_back(
        "training.precision: fp8_rowwise is no recipe of Transformer Engine; a byte an element and direction is "
        "assumed");
  }
  if (training.precision == Precision::nvfp4) {
    lines.push_back(
        "training.precision: nvfp4 in every layer; recipes that keep the first and last ones in bf16 hold more");
  }
}

void assume_dispatch(const Scenario& scenario, Lines& lines) {
  const Dispatch& dispatch = scenario.dispatch;
  if (dispatch.rank_capacity_factor > 0 && dispatch.kind == Dispatcher::hybridep) {
    lines.push_back(
        fmt::format("buffers of {} mean rows of a rank: rows above them, which the kernels drop, are computed all the "
                    "same",
                    dispatch.rank_capacity_factor));
  }
}

void warn_dispatch(const Scenario& scenario, Lines& lines) {
  const Dispatch& dispatch = scenario.dispatch;
  if (scenario.model.moe_layer_count() == 0) return;
  const std::string name = dispatcher_names()[static_cast<std::size_t>(dispatch.kind)];
  if (dispatch.deduplicates() && !cost::has_dispatch_kernels(scenario.hardware)) {
    lines.push_back(fmt::format(
        "moe.dispatcher: {}: the profile {} states no dispatch kernels; priced as an all-to-all of one row a token and "
        "rank",
        name, scenario.hardware.id));
  }
  if (dispatch.rank_capacity_factor > 0 && dispatch.kind != Dispatcher::hybridep) {
    lines.push_back("moe.expert_rank_capacity_factor has no effect with the dispatcher " + name +
                    ": hybridep alone has static buffers");
  }
  const bool fixed = (dispatch.kind == Dispatcher::hybridep && dispatch.rank_capacity_factor > 0) ||
                     (scenario.policies.capacity && scenario.policies.capacity->pad);
  if (scenario.training.cuda_graphs == CudaGraphs::full_iteration && !fixed) {
    lines.push_back(
        "training.cuda_graph_impl: full_iteration needs row counts that the host does not wait for: hybridep with "
        "expert_rank_capacity_factor, or a padded expert capacity; the waits are left out");
  }
}

void warn_modules(const Raw& raw, const Scenario& scenario, Lines& lines) {
  const model::Architecture& arch = scenario.model;
  const std::int64_t moe_layers = arch.moe_layer_count();
  const auto warn = [&](RecomputeModule module, const char* reason) {
    if (raw.modules.contains(module)) {
      lines.push_back("memory.recompute_modules: " + module_name(module) + " has no effect: " + reason);
    }
  };
  if (raw.granularity == RecomputeGranularity::full && !raw.modules.empty()) {
    lines.push_back("memory.recompute_modules has no effect under recompute_granularity: full");
    return;
  }
  if (moe_layers == 0) {
    warn(RecomputeModule::moe_act, "the model has no MoE layers");
    warn(RecomputeModule::moe, "the model has no MoE layers");
    warn(RecomputeModule::shared_experts, "the model has no MoE layers");
  } else if (arch.moe.shared_ffn == 0) {
    warn(RecomputeModule::shared_experts, "the model has no shared expert");
  }
  if (moe_layers == arch.layer_count()) warn(RecomputeModule::mlp, "the model has no dense layers");
}

void warn_lrmoe(const Raw& raw, Lines& lines) {
  if (!raw.policies.lrmoe) return;
  if (raw.policies.lrmoe->mode == policy::LrmoeSettings::Mode::kept &&
      raw.places.stated("moe.policies.lrmoe.score_sigma")) {
    lines.push_back("moe.policies.lrmoe.score_sigma has no effect in mode A");
  }
  if (raw.policies.lrmoe->replicas == policy::LrmoeSettings::Replicas::none &&
      raw.places.stated("moe.policies.lrmoe.max_instances")) {
    lines.push_back("moe.policies.lrmoe.max_instances has no effect without replicas: greedy");
  }
}

void warn_rule(const Raw& raw, Lines& lines) {
  if (!raw.policies.memfine) return;
  const bool fixed = raw.policies.memfine->rule == Rule::fixed;
  for (const char* key : {"chunks", "bins", "alpha", "planning_capacity"}) {
    const bool of_fixed = std::string(key) == "chunks";
    const std::string path = std::string("moe.policies.memfine.") + key;
    if (of_fixed == fixed || !raw.places.stated(path)) continue;
    lines.push_back(path + " has no effect under the " + (fixed ? "fixed" : "adaptive") + " rule");
  }
}

}  // namespace

Lines assumptions_of(const Raw& raw, const Scenario& scenario) {
  Lines lines;
  if (scenario.model.mtp_layers > 0 && scenario.model.mtp_kind() == model::LayerKind::moe)
    lines.push_back("multi-token-prediction blocks route like the last MoE layer");
  if (scenario.layout.cp > 1)
    lines.push_back(
        "context parallelism gathers keys and values before attention, and gives each rank a contiguous slice of the "
        "tokens that are routed");
  assume_training(raw, scenario, lines);
  assume_precision(scenario, lines);
  assume_optimizer(raw, lines);
  assume_memory(raw, scenario, lines);
  assume_dispatch(scenario, lines);
  assume_recorded(scenario, lines);
  assume_policies(raw, lines);
  return lines;
}

Lines warnings_of(const Raw& raw, const Scenario& scenario) {
  Lines lines;
  warn_modules(raw, scenario, lines);
  warn_rule(raw, lines);
  warn_lrmoe(raw, lines);
  warn_dispatch(scenario, lines);
  const auto per_node = static_cast<std::int64_t>(scenario.hardware.network.gpus_per_node.value);
  if (scenario.layout.tp > per_node) {
    lines.push_back(
        fmt::format("tensor_model_parallel_size {} is larger than a node of {} GPUs", scenario.layout.tp, per_node));
  }
  if ((!scenario.optimizer.shards_states() || scenario.optimizer.orthogonalises()) &&
      (scenario.optimizer.exp_avg_bytes != 4 || scenario.optimizer.exp_avg_sq_bytes != 4 ||
       scenario.optimizer.master_bytes != 4)) {
    lines.push_back(
        "Megatron allows optimizer states below fp32 only with its distributed optimizer (sharding: zero1)");
  }
  return lines;
}

namespace {

// What Megatron-Core refuses under its overlap of expert-parallel exchanges; simulated all the same.
void warn_overlap(const Scenario& scenario, Lines& lines) {
  if (!scenario.dispatch.overlap) return;
  const std::string key = "moe.overlap_moe_expert_parallel_comm: Megatron needs ";
  if (scenario.layout.pp > 1 && scenario.layout.vpp == 1 && scenario.stages.copies() == 1) {
    lines.push_back(key + "virtual stages with a pipeline; without them each hop takes a forward and a backward");
  }
  if (scenario.dispatch.kind == Dispatcher::allgather) lines.push_back(key + "alltoall or flex, not allgather");
  if (scenario.recompute.granularity == RecomputeGranularity::full) {
    lines.push_back(key + "recompute_granularity other than full");
  }
}

}  // namespace

Lines policy_warnings(const Scenario& scenario) {
  Lines lines;
  warn_overlap(scenario, lines);
  if (scenario.policies.memfine && scenario.policies.memfine->pipelined && scenario.layout.ep == 1)
    lines.push_back("memfine.pipelined has no effect: with expert_model_parallel_size 1 no rows travel");
  const bool routed = scenario.policies.memfine || scenario.policies.lrmoe;
  if (routed && scenario.recompute.granularity == RecomputeGranularity::selective &&
      scenario.recompute.has(RecomputeModule::moe)) {
    lines.push_back(
        "memory.recompute_modules: moe adds only the router and the shared expert: the policy recomputes the routed "
        "part already");
  }
  return lines;
}

}  // namespace moeplan::scenario
