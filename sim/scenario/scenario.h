#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "cost/kernels.h"
#include "model/architecture.h"
#include "policy/capacity.h"
#include "policy/lrmoe.h"
#include "policy/memfine.h"
#include "routing/loads.h"
#include "scenario/settings.h"
#include "scenario/stages.h"
#include "topology/hardware.h"
#include "topology/layout.h"

// A scenario, resolved: every file read, every default applied, every rule checked. Plain values in base units.
namespace moeplan::scenario {

struct Policies {
  std::optional<policy::CapacitySettings> capacity;
  std::optional<policy::MemfineSettings> memfine;
  std::optional<policy::LrmoeSettings> lrmoe;
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
  Dispatch dispatch;
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

// The matrix units that a precision of the scenario runs on.
cost::Precision cost_precision(Precision precision);

// What keeps the scenario's own set of policies from running with its dispatcher and layout; "" when nothing does.
std::string policy_obstacle(const Scenario& scenario);

// The same scenario under another set of policies, for compare: names joined by '+' ("none", "recompute-moe",
// "capacity", "memfine", "lrmoe", "memfine+lrmoe"). Settings of the scenario are used where present, else memfine is
// adaptive with bins 1, 2, 4, 8, and capacity and lrmoe take their defaults. "none" turns policies off and keeps the
// recompute settings; "recompute-moe" adds Megatron's module moe to them. Unknown names: an Error with the nearest
// name; `where` names the option.
Scenario with_policies(const Scenario& scenario, const std::string& names, const base::Where& where);

}  // namespace moeplan::scenario
