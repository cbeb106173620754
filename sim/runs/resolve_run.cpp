#include <fmt/core.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/check.h"
#include "runs/run_scenario.h"

namespace moeplan::runs {
namespace {

// The cell that a key of the scenario comes from.
std::string_view column_of(std::string_view key) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 37> kColumns = {{
      {"model", "model"},
      {"cluster.hardware", "gpu"},
      {"cluster.gpus", "gpus"},
      {"parallel.tensor_model_parallel_size", "tp"},
      {"parallel.pipeline_model_parallel_size", "pp"},
      {"parallel.virtual_pipeline_model_parallel_size", "vpp"},
      {"parallel.context_parallel_size", "cp"},
      {"parallel.expert_model_parallel_size", "ep"},
      {"parallel.expert_tensor_parallel_size", "etp"},
      {"parallel.pipeline_model_parallel_layout", "pp_layout"},
      {"training.micro_batch_size", "mbs"},
      {"training.global_batch_size", "gbs"},
      {"training.seq_length", "seq_len"},
      {"training.precision", "precision"},
      {"training.schedule", "schedule"},
      {"training.framework", "framework"},
      {"training.cuda_graph_impl", "cuda_graph"},
      {"training.cuda_graph_scope", "cuda_graph_scope"},
      {"training.tp_comm_overlap", "tp_comm_overlap"},
      {"training.overlap_grad_reduce", "grad_overlap"},
      {"optimizer.kind", "optimizer"},
      {"optimizer.sharding", "sharding"},
      {"optimizer.shard_group", "shard_group"},
      {"optimizer.main_grads_dtype", "main_grads_dtype"},
      {"optimizer.exp_avg_dtype", "moments_dtype"},
      {"optimizer.grad_reduce_dtype", "grad_reduce_dtype"},
      {"memory.recompute_granularity", "recompute"},
      {"memory.recompute_method", "recompute_modules"},
      {"memory.recompute_num_layers", "recompute_layers"},
      {"memory.offload_modules", "offload_modules"},
      {"moe.dispatcher", "dispatcher"},
      {"moe.dispatcher_sms", "dispatcher_sms"},
      {"moe.overlap_moe_expert_parallel_comm", "ep_overlap"},
      {"moe.delay_wgrad_compute", "delayed_wgrad"},
      {"moe.permute_fusion", "permute_fusion"},
      {"moe.expert_rank_capacity_factor", "capacity_factor"},
      {"moe.paged_stash", "paged_stash"},
  }};
  for (const auto& [path, column] : kColumns) {
    if (path == key) return column;
  }
  return {};
}

// Settings that the row states and that this version does not simulate, against numbers that cannot be. The words of
// settings are checked when the row is read, so a scenario that refuses one does not have it.
bool is_of_this_version(const base::Fault& fault) {
  const std::string_view key = fault.where.key;
  if (fault.message.find("not supported in this version") != std::string::npos) return true;
  if (fault.hint.find("--limit") != std::string::npos) return true;
  for (const std::string_view section : {"optimizer.", "memory.", "moe."}) {
    if (key.starts_with(section)) return true;
  }
  const std::string_view column = column_of(key);
  return key.starts_with("training.") && column != "mbs" && column != "gbs" && column != "seq_len";
}

// "vpp: virtual stages need more than one stage"; the cell's name, or the key's where no cell has it.
std::string told(const base::Fault& fault) {
  const std::string_view column = column_of(fault.where.key);
  const std::string place = column.empty() ? fault.where.key : std::string(column);
  std::string text = place.empty() ? fault.message : place + ": " + fault.message;
  for (const base::Where& other : fault.also) {
    const std::string_view cell = column_of(other.key);
    if (!cell.empty() && cell != column) text += fmt::format(" (see {})", cell);
  }
  return fault.hint.empty() ? text : text + " (" + fault.hint + ")";
}

std::string joined(const std::vector<base::Fault>& faults) {
  std::string text;
  for (const base::Fault& fault : faults) text += (text.empty() ? "" : "; ") + told(fault);
  return text;
}

}  // namespace

std::string status_name(RunStatus status) {
  switch (status) {
    case RunStatus::ok:
      return "ok";
    case RunStatus::skipped:
      return "skipped";
    case RunStatus::error:
      return "error";
  }
  MOEPLAN_CHECK(false, "a status has a name");
}

ResolvedRun resolve_run(const Run& run, const scenario::Options& options) {
  ResolvedRun result;
  RunScenario mapped = scenario_of(run, options.data_dirs);
  result.assumptions = std::move(mapped.assumptions);
  scenario::Options asked = options;
  asked.iterations = std::max(asked.iterations, mapped.iterations);
  if (!mapped.faults.empty()) {
    result.status = RunStatus::error;
    result.reason = joined(mapped.faults);
    return result;
  }
  if (!mapped.missing.empty()) {
    result.status = RunStatus::skipped;
    result.reason = std::move(mapped.missing);
    return result;
  }
  result.yaml = std::move(mapped.yaml);
  try {
    const config::Node root = config::parse_yaml(result.yaml, "row " + run.id);
    result.scenario =
        std::make_shared<scenario::Scenario>(scenario::resolve_scenario(root, run.id, "", asked, nullptr));
  } catch (const base::Error& error) {
    result.status = RunStatus::skipped;
    for (const base::Fault& fault : error.faults()) {
      if (!is_of_this_version(fault)) result.status = RunStatus::error;
    }
    result.reason = joined(error.faults());
  }
  return result;
}

}  // namespace moeplan::runs
