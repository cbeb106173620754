#include "report/notes.h"

#include <fmt/core.h>

#include "report/format.h"

namespace moeplan::report {

std::vector<cost::FamilyEvidence> assumed_families(const topology::HardwareProfile& profile,
                                                   cost::Precision precision) {
  std::vector<cost::FamilyEvidence> assumed;
  for (const cost::FamilyEvidence& family : cost::family_evidence(profile, precision)) {
    if (family.evidence == topology::Evidence::assumed) assumed.push_back(family);
  }
  return assumed;
}

std::vector<std::string> evidence_warnings(const topology::HardwareProfile& profile, cost::Precision precision) {
  std::vector<std::string> lines;
  for (const cost::FamilyEvidence& family : assumed_families(profile, precision)) {
    lines.push_back(fmt::format("{}: the time rests on an assumed value of {} ({})", family.family, profile.id,
                                family.weakest_key));
  }
  return lines;
}

std::vector<std::string> warnings_of(const search::Evaluation& evaluation) {
  const scenario::Scenario& scenario = *evaluation.scenario;
  std::vector<std::string> lines = evaluation.warnings;
  for (const std::string& line : scenario.warnings) lines.push_back(without_absolute_paths(line));
  for (std::string& line : evidence_warnings(scenario.hardware, scenario::cost_precision(scenario.training.precision)))
    lines.push_back(std::move(line));
  return lines;
}

std::vector<std::string> short_warnings_of(const search::Evaluation& evaluation) {
  const scenario::Scenario& scenario = *evaluation.scenario;
  std::vector<std::string> lines = evaluation.warnings, families;
  for (const std::string& line : scenario.warnings) lines.push_back(without_absolute_paths(line));
  for (const cost::FamilyEvidence& family :
       assumed_families(scenario.hardware, scenario::cost_precision(scenario.training.precision))) {
    families.push_back(fmt::format("{} ({})", family.family, family.weakest_key));
  }
  if (!families.empty()) {
    lines.push_back(
        fmt::format("times rest on assumed values of {}: {}", scenario.hardware.id, joined(families, ", ")));
  }
  return lines;
}

std::vector<std::string> assumptions_of_version() {
  return {
      "uncertainty.step_time_s and uncertainty.peak_allocated_bytes are null: only run and validate work ranges out",
  };
}

std::vector<std::string> assumptions_of(const search::Evaluation& evaluation) {
  std::vector<std::string> lines;
  for (const std::string& line : evaluation.scenario->assumptions) lines.push_back(without_absolute_paths(line));
  for (const std::string& note : evaluation.routing.notes) {
    lines.push_back("routing: " + without_absolute_paths(note));
  }
  if (!evaluation.uncertainty) {
    for (std::string& line : assumptions_of_version()) lines.push_back(std::move(line));
    return lines;
  }
  std::vector<std::string> assumed;
  for (const search::FamilyError& family : evaluation.uncertainty->families)
    if (family.evidence == topology::Evidence::assumed)
      assumed.push_back(fmt::format("{} {}", family.family, percent(family.spread)));
  if (!assumed.empty())
    lines.push_back("uncertainty: spreads that the profile does not state are assumed: " + joined(assumed, ", "));
  if (!evaluation.uncertainty->rerun)
    lines.push_back("uncertainty: the step is too large to be run again for each cost model; weighed by its parts");
  return lines;
}

}  // namespace moeplan::report
