#include <fmt/core.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "base/nearest.h"
#include "cost/dispatch.h"
#include "cost/kernels.h"
#include "scenario/rules.h"
#include "topology/cluster.h"

// What a scenario asks of a machine that its profile does not state.
namespace moeplan::scenario {

namespace {

constexpr const char* kNoLibrary = "none";

void check_precision(const Raw& raw, const topology::HardwareProfile& profile, base::Faults& faults) {
  if (cost::supports(profile, cost_precision(raw.training.precision))) return;
  faults.add(raw.places.where("training.precision"),
             fmt::format("the profile {} states no rate of {}", profile.id,
                         precision_names()[static_cast<std::size_t>(raw.training.precision)]),
             "bf16, or another profile", {raw.places.where("cluster.hardware")});
}

void check_host_link(const Raw& raw, const topology::HardwareProfile& profile, base::Faults& faults) {
  if (cost::has_host_link(profile)) return;
  const auto missing = [&](const char* path) {
    faults.add(raw.places.where(path),
               fmt::format("the profile {} states no network.host_link_bandwidth to copy over", profile.id), {},
               {raw.places.where("cluster.hardware")});
  };
  if (!raw.memory.offload_modules.empty()) missing("memory.offload_modules");
  if (raw.optimizer.offload_fraction > 0) missing("optimizer.cpu_offload");
}

void check_degraded(const Raw& raw, const topology::HardwareProfile& profile, base::Faults& faults) {
  if (raw.degraded.empty()) return;
  std::vector<topology::DegradedLink> links;
  for (const Raw::Degraded& one : raw.degraded) links.push_back(one.link);
  const auto why = topology::degraded_faults(links, topology::Cluster(profile, raw.layout.world));
  for (std::size_t i = 0; i < why.size(); ++i)
    if (why[i]) faults.add(raw.degraded[i].where, *why[i], {}, {raw.places.where("cluster.hardware")});
}

}  // namespace

cost::Precision cost_precision(Precision precision) {
  switch (precision) {
    case Precision::bf16:
    case Precision::fp16:
      return cost::Precision::bf16;  // the same units at the same rate
    case Precision::fp8_tensorwise:
    case Precision::fp8_rowwise:
    case Precision::fp8_blockwise:
      return cost::Precision::fp8;
    case Precision::mxfp8:
      return cost::Precision::mxfp8;
    case Precision::nvfp4:
      return cost::Precision::nvfp4;
  }
  return cost::Precision::bf16;
}

void choose_library(const Raw& raw, const std::vector<Override>& overrides, topology::HardwareProfile& profile,
                    base::Faults& faults) {
  const std::string& stated = raw.kernel_library;
  const bool megatron = raw.training.framework == Framework::megatron;
  const std::string name = !stated.empty() ? stated : megatron ? "transformer-engine" : "pytorch";
  if (name == kNoLibrary) return;
  std::vector<std::string> names = {kNoLibrary};
  const topology::HardwareProfile::Library* chosen = nullptr;
  for (const auto& library : profile.libraries) {
    names.push_back(library.name);
    if (library.name == name) chosen = &library;
  }
  if (chosen == nullptr) {
    if (!stated.empty())
      faults.add(
          raw.places.where("cluster.kernel_library"),
          fmt::format("expected one of {} (libraries of {}), got '{}'", fmt::join(names, ", "), profile.id, name),
          base::nearest_hint(name, names));
    return;
  }
  topology::HardwareProfile::Library used = *chosen;
  std::erase_if(used.values, [&](const auto& entry) {
    // The host issues the products of a group one by one: its cost is counted there.
    if (entry.first == "grouped_gemm.group_issue") return true;
    return std::any_of(overrides.begin(), overrides.end(),
                       [&](const Override& given) { return given.path.starts_with(entry.first); });
  });
  profile = topology::with_library(std::move(profile), used);
}

void check_hardware(const Raw& raw, const topology::HardwareProfile& profile, base::Faults& faults) {
  check_precision(raw, profile, faults);
  check_host_link(raw, profile, faults);
  check_degraded(raw, profile, faults);
}

}  // namespace moeplan::scenario
