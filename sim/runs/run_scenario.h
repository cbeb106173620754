#pragma once
#include <memory>
#include <string>
#include <vector>

#include "runs/run_table.h"
#include "scenario/resolve.h"

// From a row of the table of measured runs to a scenario.
namespace moeplan::runs {

// What a row becomes. Exactly one of three: a scenario file; faults, where cells contradict each other or what exists;
// `missing`, where the row does not state something without which there is no scenario.
struct RunScenario {
  std::string yaml;
  std::vector<base::Fault> faults;
  std::string missing;
  std::int64_t iterations = 1;           // to simulate, at least
  std::vector<std::string> assumptions;  // what the row does not state, and what is simulated instead
};

// Routing that a model finds by itself ("natural", and "drop" before the capacity cuts it): log-normal shares. 0.35 is
// the level at which training with an auxiliary loss settles; OLMoE on its own training data, the closest trace that is
// public, is fitted best by 0.4 (docs/runs.md).
inline constexpr double kNaturalSigma = 0.35;
// Of few experts, which a balance loss keeps nearer: Mixtral 0.02 to 0.18, another model of 8 experts 0.05.
inline constexpr double kFewExpertsSigma = 0.1;
inline constexpr std::int64_t kFewExperts = 16;
// A new router changes its favourites: rank correlations of loads fall to 0.2 to 0.5 within 10 to 40 iterations
// (SmartMoE's published trace, docs/runs.md). 50 to 100 iterations see about as many independent ones.
inline constexpr std::int64_t kDraws = 4;

RunScenario scenario_of(const Run& run, const std::vector<std::string>& data_dirs);

enum class RunStatus { ok, skipped, error };
std::string status_name(RunStatus status);

// The assumption of a row that leaves recomputation open.
inline const std::string kNoRecomputation = "recompute: none";

// A row that is ready to be simulated, or why it is not: `skipped` where this version or the row leaves something out,
// `error` where the row itself is wrong.
struct ResolvedRun {
  RunStatus status = RunStatus::ok;
  std::string reason;  // one line; empty when ok
  std::string yaml;
  std::vector<std::string> assumptions;
  std::shared_ptr<const scenario::Scenario> scenario;  // when ok
};

// Maps the row and resolves its scenario. `options`: data folders and the limit of work; overrides apply to every row.
ResolvedRun resolve_run(const Run& run, const scenario::Options& options);

}  // namespace moeplan::runs
