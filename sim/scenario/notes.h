#pragma once
#include <string>
#include <vector>

#include "scenario/raw.h"
#include "scenario/scenario.h"

// What a result must say beside its figures: defaults that matter, and settings that do less than they seem to.
namespace moeplan::scenario {

// Defaults that were taken because the file states nothing.
std::vector<std::string> assumptions_of(const Raw& raw, const Scenario& scenario);

// Settings without effect in this model or layout.
std::vector<std::string> warnings_of(const Raw& raw, const Scenario& scenario);

// Of policies that meet recompute settings; with_policies takes them back and makes them anew.
std::vector<std::string> policy_warnings(const Scenario& scenario);

}  // namespace moeplan::scenario
