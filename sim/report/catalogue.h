#pragma once
#include <string>
#include <utility>
#include <vector>

#include "model/architecture.h"
#include "topology/hardware.h"

// What `moeplan list` prints. Text is a table; JSON has the schema "moeplan.list/1".
namespace moeplan::report {

std::string models_text(const std::vector<model::Architecture>& models);
std::string models_json(const std::vector<model::Architecture>& models);
std::string hardware_text(const std::vector<topology::HardwareProfile>& profiles);
std::string hardware_json(const std::vector<topology::HardwareProfile>& profiles);

// One entry with everything that is known of it: parameter counts and FLOPs; every value with evidence and source.
std::string model_text(const model::Architecture& model);
std::string profile_text(const topology::HardwareProfile& profile);

// Names with one line each: policies, dispatchers, schedules, keys. `second`: heading of the second column.
using Names = std::vector<std::pair<std::string, std::string>>;
std::string names_text(const std::string& first, const std::string& second, const Names& names);
std::string names_json(const std::string& topic, const Names& names);

}  // namespace moeplan::report
