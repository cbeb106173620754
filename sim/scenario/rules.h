#pragma once
#include "base/error.h"
#include "config/document.h"
#include "model/architecture.h"
#include "scenario/overrides.h"
#include "scenario/raw.h"
#include "topology/hardware.h"

// Rules that several keys or files make together. Each fault stands at the value of the scenario and names the other
// places that take part.
namespace moeplan::scenario {

struct Sides {
  const Raw& raw;
  const model::Architecture& arch;
  const config::Node& model_file;  // for the places of its keys
};

// The place of a key of the model file, written under any of the names; of the section or file where it is absent.
base::Where model_key(const config::Node& model_file, const std::string& section,
                      const std::vector<std::string>& names);

// Parallel sizes against the cluster, the model, the batch and the sequence.
void check_layout(const Sides& sides, base::Faults& faults);
// Policies and routing against the model and the sequence.
void check_moe(const Sides& sides, base::Faults& faults);
// Recompute modules against the model; MemFine's recompute against the granularity.
void check_recompute(const Sides& sides, base::Faults& faults);

// Sharding against the data-parallel group; dispatcher against policies.
void check_settings(const Sides& sides, base::Faults& faults);
// Precisions and host copies that the profile states no rate for.
// The profile with the values of the library of kernels that the scenario or its framework runs, but those that
// `overrides` state. An unknown name is a fault.
void choose_library(const Raw& raw, const std::vector<Override>& overrides, topology::HardwareProfile& profile,
                    base::Faults& faults);
void check_hardware(const Raw& raw, const topology::HardwareProfile& profile, base::Faults& faults);

// Which layers each stage holds; a fault and an empty map when the rules cannot be met.
StageMap resolve_stages(const Sides& sides, base::Faults& faults);
// The schedule: interleaved where it is not stated and there are virtual stages. Needs a layout whose groups fit.
std::string resolve_schedule(const Sides& sides, const StageMap& stages, base::Faults& faults);

}  // namespace moeplan::scenario
