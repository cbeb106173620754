#include "calibrate/check.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "measurements/predict.h"

namespace moeplan::calibrate {
namespace {

using measurements::Family;
using measurements::Measurement;
using Rows = std::vector<const Measurement*>;

constexpr double kLargeFlop = 1e10, kLargeBytes = 64.0 * 1024 * 1024;
constexpr double kSlowedShare = 0.1;  // of the rows: fewer that ran with a lowered clock are chance
constexpr double kSpreadsAllowed = 1.5;

double median(std::vector<double> values) { return residual_of(std::move(values)).median; }

double allowed_of(const topology::HardwareProfile& profile, const char* section) {
  const topology::Value* spread = topology::value_at(profile, std::string(section) + ".spread");
  return std::max(kLeastAllowed, spread == nullptr ? 0 : kSpreadsAllowed * spread->value);
}

Finding finding(std::string what, double ratio, double allowed, std::int64_t rows) {
  return {std::move(what), ratio, allowed, rows, std::abs(std::log(ratio)) > std::log1p(allowed), {}};
}

// Values and clocks, whose share of what is stated counts.
Finding share_finding(std::string what, double share, double allowed, std::int64_t rows) {
  return {std::move(what), share, allowed, rows, std::abs(share - 1) > allowed, {}};
}

struct Group {
  std::string name;
  const char* section = "";
};

// Nothing for rows that are too small to tell, or that belong to no group.
Group group_of(const Measurement& row) {
  const bool large = measurements::flop_of(row) >= kLargeFlop;
  switch (row.family) {
    case Family::gemm:
      if (large) return {std::string("dense GEMM ") + cost::precision_name(row.precision), "gemm"};
      break;
    case Family::grouped_gemm:
    case Family::moe_layer:
      if (large) return {std::string("grouped GEMM ") + cost::precision_name(row.precision), "grouped_gemm"};
      break;
    case Family::attention:
      if (large) return {row.backward ? "attention backward" : "attention forward", "attention"};
      break;
    case Family::memory:
      if (row.shape.bytes < kLargeBytes) break;
      if (row.kind.find("permute") != std::string::npos) return {"memory-bound, rows moved", "memory_bound"};
      return {row.kind.starts_with("cross_entropy") ? "memory-bound, loss" : "memory-bound, streaming", "memory_bound"};
    case Family::collective:
      if (!row.pair.empty() || row.shape.bytes < kLargeBytes) break;
      return {fmt::format("{} on {} GPUs, {} nodes", row.kind, row.shape.ranks, row.shape.nodes), "network"};
    case Family::dispatch:
      return {fmt::format("{} on {} GPUs, {} nodes", row.backward ? "combine" : "dispatch", row.shape.ranks,
                          row.shape.nodes),
              "dispatch"};
  }
  return {};
}

std::string meaning(const Group& group, const Measurement& row, double ratio) {
  const std::string times = fmt::format("{} takes {:.2f} times what the profile says", group.name, ratio);
  if (ratio < 1) return times + ": another part, or a profile that is too slow";
  const std::string section = group.section;
  if (section == "network" || section == "dispatch") {
    return times + (row.shape.nodes > 1
                        ? fmt::format(": network cards or the fabric give {:.0f} % of the rate", 100 / ratio)
                        : fmt::format(": the links inside a node give {:.0f} % of the rate", 100 / ratio));
  }
  if (section == "memory_bound") return times + ": the memory clock, its errors, or a neighbour on the same memory";
  return times + ": a lowered clock or power limit, or another library";
}

void compare_rows(const Rows& rows, const topology::HardwareProfile& profile, MachineCheck& check) {
  struct Ratios {
    Group group;
    const Measurement* first = nullptr;
    std::vector<double> values;
  };
  std::map<std::string, Ratios> groups;
  for (const Measurement* row : rows) {
    const Group group = group_of(*row);
    if (group.name.empty()) continue;
    const auto predicted = measurements::predict(*row, profile);
    if (!predicted.seconds || !(*predicted.seconds > 0)) continue;
    Ratios& ratios = groups[group.name];
    if (ratios.first == nullptr) ratios = {group, row, {}};
    ratios.values.push_back(row->seconds / *predicted.seconds);
  }
  for (const auto& [name, ratios] : groups) {
    Finding found = finding(name, median(ratios.values), allowed_of(profile, ratios.group.section),
                            static_cast<std::int64_t>(ratios.values.size()));
    if (found.deviates) found.sentence = meaning(ratios.group, *ratios.first, found.measured);
    check.findings.push_back(std::move(found));
  }
}

// Pairs of one kind do the same work: a slow one has a slow link or card, and a rank whose pairs are all slow is it.
void compare_pairs(const Rows& rows, MachineCheck& check) {
  std::map<std::pair<std::int64_t, double>, Rows> kinds;
  for (const Measurement* row : rows) {
    if (!row->pair.empty()) kinds[{row->shape.nodes, row->shape.bytes}].push_back(row);
  }
  for (const auto& [kind, pairs] : kinds) {
    if (pairs.size() < 3) continue;  // no majority
    std::vector<double> times;
    for (const Measurement* row : pairs) times.push_back(row->seconds);
    const double usual = median(times);
    const char* place = kind.first > 1 ? "between nodes" : "inside a node";
    std::map<std::string, std::pair<int, int>> ranks;  // slow pairs, all pairs
    Finding worst =
        finding(fmt::format("pairs of GPUs {}", place), 1, kPairAllowed, static_cast<std::int64_t>(pairs.size()));
    std::string slow;
    for (const Measurement* row : pairs) {
      const double ratio = row->seconds / usual;
      const bool is_slow = ratio > 1 + kPairAllowed;
      const std::size_t dash = row->pair.find('-');
      for (const std::string& rank :
           {row->pair.substr(0, dash), row->pair.substr(std::min(dash, row->pair.size() - 1) + 1)}) {
        ranks[rank].first += is_slow ? 1 : 0;
        ++ranks[rank].second;
      }
      if (is_slow) slow += fmt::format("{}{} ({:.2f})", slow.empty() ? "" : ", ", row->pair, ratio);
      if (ratio > worst.measured) worst.measured = ratio;
    }
    worst.deviates = !slow.empty();
    if (worst.deviates) {
      worst.sentence = fmt::format("slower than the median pair {}: {}", place, slow);
      for (const auto& [rank, counts] : ranks) {
        if (counts.first == counts.second && counts.second > 1)
          worst.sentence +=
              fmt::format("; rank {} is slow with every other: its {}", rank, kind.first > 1 ? "network card" : "link");
      }
    }
    check.findings.push_back(std::move(worst));
  }
}

void compare_clocks(const Rows& rows, const std::vector<measurements::DeviceLine>& devices, MachineCheck& check) {
  double highest = 0, possible = 0;
  std::map<std::string, std::int64_t> reasons;
  std::int64_t told = 0;
  for (const measurements::DeviceLine& device : devices) possible = std::max(possible, device.max_sm_mhz);
  for (const Measurement* row : rows) {
    if (!(row->sm_mhz > 0)) continue;
    ++told;
    highest = std::max(highest, row->sm_mhz);
    // The power cap is how these parts run large products; all else holds them back.
    if (!row->slowdown.empty() && row->slowdown != "power cap") ++reasons[row->slowdown];
  }
  if (told == 0) {
    check.notes.push_back("the measurements hold no clock readings: a capped clock shows only in the times");
    return;
  }
  if (possible > 0) {
    Finding clock = share_finding("SM clock, highest seen", highest / possible, kClockAllowed, told);
    if (clock.deviates)
      clock.sentence = fmt::format(
          "the SM clock never ran above {:.0f} of {:.0f} MHz: somebody capped it, or power or "
          "heat holds it down",
          highest, possible);
    check.findings.push_back(std::move(clock));
  }
  for (const auto& [reason, count] : reasons) {
    const double share = static_cast<double>(count) / static_cast<double>(told);
    if (share < kSlowedShare) continue;
    check.findings.push_back(
        {"clocks held down: " + reason, share, kSlowedShare, count, true,
         fmt::format("{} of {} timings ran while the clock was held down: {}", count, told, reason)});
  }
}

// Values that say which part it is and how it is connected; launches and memory of a context depend on the host and on
// the driver, and are no deviation of the machine.
void compare_values(const FitOptions& options, const topology::HardwareProfile& profile, MachineCheck& check) {
  struct Limit {
    const char* key;
    double allowed;
    const char* meaning;
  };
  constexpr Limit kLimits[] = {{"device.sm_count", 0.001, "another part, or a slice of one"},
                               {"device.memory_capacity", 0.01, "another part, or a slice of one"},
                               {"gemm.sustained", 0.08, "a lowered power limit, or heat"},
                               {"network.host_link_bandwidth", 0.15, "fewer or slower lanes to the host"}};
  for (const Limit& limit : kLimits) {
    const topology::Value* stated = topology::value_at(profile, limit.key);
    std::vector<double> values;
    for (const measurements::ReadOffValue& value : options.values) {
      if (value.key == limit.key) values.push_back(value.value);
    }
    if (stated == nullptr || !(stated->value > 0) || values.empty()) continue;
    Finding found = share_finding(limit.key, median(values) / stated->value, limit.allowed,
                                  static_cast<std::int64_t>(values.size()));
    if (found.deviates)
      found.sentence = fmt::format("{} is {:.3g} times what the profile states: {}", limit.key, found.measured,
                                   found.measured < 1 ? limit.meaning : "the profile states too little");
    check.findings.push_back(std::move(found));
  }
}

}  // namespace

bool MachineCheck::deviates() const {
  return std::any_of(findings.begin(), findings.end(), [](const Finding& one) { return one.deviates; });
}

bool MachineCheck::compared() const {
  return std::any_of(findings.begin(), findings.end(), [](const Finding& one) {
    return !one.what.starts_with("SM clock") && !one.what.starts_with("clocks held down");
  });
}

MachineCheck check_machine(const Rows& rows, const FitOptions& options,
                           const std::vector<measurements::DeviceLine>& devices,
                           const topology::HardwareProfile& profile) {
  MachineCheck check;
  check.profile = profile.id;
  compare_values(options, profile, check);
  compare_clocks(rows, devices, check);
  compare_rows(rows, profile, check);
  compare_pairs(rows, check);
  return check;
}

}  // namespace moeplan::calibrate
