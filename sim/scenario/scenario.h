#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "base/error.h"
#include "model/architecture.h"
#include "policy/capacity.h"
#include "policy/lrmoe.h"
#include "policy/memfine.h"
#include "routing/loads.h"
#include "scenario/stages.h"
#include "topology/hardware.h"
#include "topology/layout.h"

// A scenario, resolved: every file read, every default applied, every rule checked. Plain values in base units.
namespace moeplan::scenario {

enum class RecomputeGranularity { none, selective, full };
// Megatron's module names; the routed part alone (router, shared expert and dense parts kept) is what MemFine and LRMoE
// recompute, not a module.
enum class RecomputeModule { core_attn, layernorm, mla_up_proj, moe_act, mlp, moe, shared_experts };

struct Recompute {
  RecomputeGranularity granularity = RecomputeGranularity::none;
  std::set<RecomputeModule> modules;  // of selective
  bool has(RecomputeModule module) const { return modules.contains(module); }
};

struct Optimizer {
  bool distributed = true;           // zero1: states divided over the data-parallel group; false: ddp, replicated
  std::int64_t main_grad_bytes = 4;  // of one element of the gradient buffer
  std::int64_t exp_avg_bytes = 4, exp_avg_sq_bytes = 4, master_bytes = 4;
};

enum class Accounting { replay, closed_form };  // what the verdict is taken from

struct Memory {
  double usable_fraction = 0.94;
  std::optional<std::int64_t> given_static_bytes;  // parameters, gradients, optimizer states as given, not counted
  Accounting accounting = Accounting::replay;
  bool expandable_segments = false;  // recorded; reserved memory is not modelled yet
};

struct Policies {
  std::optional<policy::CapacitySettings> capacity;
  std::optional<policy::MemfineSettings> memfine;
  std::optional<policy::LrmoeSettings> lrmoe;
};

struct Training {
  std::int64_t micro_batch_size = 1, global_batch_size = 1, seq_length = 0;
  std::string schedule = "1f1b";
  double total_tokens = 0;  // 0: not stated
  std::int64_t iterations = 1;
};

struct Scenario {
  std::string name;  // the file as the user named it
  model::Architecture model;
  topology::HardwareProfile hardware;
  topology::Layout layout;
  StageMap stages;  // which layers each pipeline rank and virtual stage holds
  Training training;
  Optimizer optimizer;
  Recompute recompute;
  Memory memory;
  std::string dispatcher = "alltoall";
  Policies policies;  // what the scenario itself turns on
  std::shared_ptr<const routing::LoadSource> loads;
  std::string routing_label;  // for the provenance: "trace", "balanced", "lognormal"
  std::uint64_t seed = 1;
  std::vector<std::string> assumptions;  // defaults that matter and were not stated
  std::vector<std::string> warnings;

  std::int64_t microbatches() const { return training.global_batch_size / (training.micro_batch_size * layout.dp()); }
  std::int64_t usable_bytes() const;  // floor(capacity * usable_fraction)
  std::int64_t capacity_bytes() const;
};

// The same scenario under another set of policies, for compare: names joined by '+' ("none", "recompute-moe",
// "capacity", "memfine", "lrmoe", "memfine+lrmoe"). Settings of the scenario are used where present, else memfine is
// adaptive with bins 1, 2, 4, 8, and capacity and lrmoe take their defaults. "none" turns policies off and keeps the
// recompute settings; "recompute-moe" adds Megatron's module moe to them. Unknown names: an Error with the nearest
// name; `where` names the option.
Scenario with_policies(const Scenario& scenario, const std::string& names, const base::Where& where);

}  // namespace moeplan::scenario
