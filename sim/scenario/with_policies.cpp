#include <algorithm>
#include <string>
#include <vector>

#include "base/check.h"
#include "base/nearest.h"
#include "policy/policies.h"
#include "scenario/notes.h"
#include "scenario/policy_rules.h"
#include "scenario/scenario.h"

namespace moeplan::scenario {
namespace {

std::vector<std::string> split_names(const std::string& names) {
  std::vector<std::string> result(1);
  for (const char c : names) {
    if (c == '+') {
      result.emplace_back();
    } else {
      result.back() += c;
    }
  }
  return result;
}

std::vector<std::string> known_names() {
  std::vector<std::string> names;
  for (const policy::PolicyEntry& entry : policy::policy_table()) names.push_back(entry.name);
  return names;
}

void check_names(const std::vector<std::string>& names, const Scenario& scenario, const base::Where& where) {
  const std::vector<std::string> known = known_names();
  base::Faults faults;
  for (const std::string& name : names) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      faults.add(where, "expected one of " + base::join_names(known) + ", got '" + name + "'",
                 base::nearest_hint(name, known));
    } else if (std::count(names.begin(), names.end(), name) > 1) {
      faults.add(where, "'" + name + "' is listed twice");
    } else if (name == "none" && names.size() > 1) {
      faults.add(where, "'none' cannot be joined with other policies");
    } else if (name != "none" && scenario.model.moe_layer_count() == 0) {
      faults.add(where, "'" + name + "' needs a model with MoE layers", {}, {scenario.model.where_layers});
    }
  }
  faults.throw_if_any();
}

void add_policy(const std::string& name, const Policies& settings, Scenario& scenario) {
  if (name == "none") return;
  if (name == "capacity") {
    scenario.policies.capacity = settings.capacity.value_or(policy::CapacitySettings{});
  } else if (name == "memfine") {
    scenario.policies.memfine = settings.memfine.value_or(policy::MemfineSettings{});
  } else if (name == "lrmoe") {
    scenario.policies.lrmoe = settings.lrmoe.value_or(policy::LrmoeSettings{});
  } else if (name == "recompute-moe") {
    // Full recompute holds the module already.
    if (scenario.recompute.granularity == RecomputeGranularity::full) return;
    scenario.recompute.granularity = RecomputeGranularity::selective;
    scenario.recompute.modules.insert(RecomputeModule::moe);
  } else {
    MOEPLAN_CHECK(false, "a policy of the table that no scenario can turn on: " + name);
  }
}

}  // namespace

std::string policy_obstacle(const Scenario& scenario) {
  const auto conflicts = policy_conflicts(scenario.policies, scenario.dispatch.kind, scenario.layout);
  return conflicts.empty() ? "" : conflicts.front().message;
}

Scenario with_policies(const Scenario& scenario, const std::string& names, const base::Where& where) {
  const std::vector<std::string> list = split_names(names);
  check_names(list, scenario, where);
  Scenario result = scenario;
  result.policies = {};
  for (const std::string& name : list) add_policy(name, scenario.policies, result);
  if (const std::string obstacle = policy_obstacle(result); !obstacle.empty()) throw base::Error(where, obstacle);
  for (const std::string& old : policy_warnings(scenario)) std::erase(result.warnings, old);
  for (const std::string& line : policy_warnings(result)) result.warnings.push_back(line);
  return result;
}

}  // namespace moeplan::scenario
