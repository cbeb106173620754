#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "scenario/resolve.h"
#include "search/evaluate.h"
#include "search/oom_candidates.h"

// `moeplan explain`: who holds the peak, and what a change of one setting or two would do to it. Every change is
// simulated; savings are never added up.
namespace moeplan::search {

// A change and the scenario with it. Figures are those of Evaluation.
struct Lever {
  std::string name;     // "recompute moe_act", "EP doubled, expandable segments"
  std::string set;      // "--set ..." ready to paste
  std::string refused;  // why the scenario cannot be so; the figures are empty then
  std::int64_t changes = 1;
  Verdict verdict = Verdict::fits;
  std::int64_t allocated_bytes = 0, reserved_bytes = 0, device_bytes = 0, host_bytes = 0;
  std::int64_t rank = 0;          // the one with the most device bytes
  std::int64_t saving_bytes = 0;  // of device bytes against the base; negative: it takes more
  double headroom_fraction = 0, step_s = 0, step_change = 0;  // step time / that of the base - 1
  std::vector<std::string> warnings;                          // of the evaluation that the base does not have
  std::int64_t ops = 0;
};

struct ExplainSettings {
  std::size_t pairs_of = 6;  // pairs among so many of the best single changes; 0 and 1: none
  std::optional<OomLine> oom_line;
};

struct Explanation {
  Evaluation base;
  std::vector<Lever> singles, pairs;  // ranked, those that were evaluated
  std::vector<Lever> refused;
  std::optional<OomDecoding> oom;
  // The change that makes it fit, with 5 % headroom where there is one, at the least step time; null where none does or
  // none is needed.
  const Lever* advice() const;
  std::int64_t ops() const;  // engine ops evaluated, for --stats
};

// Changes that save less than a thousandth of the base's device bytes count as saving nothing.
bool saves(const Lever& lever, std::int64_t base_device_bytes);

// Order of the ranking: first those that fit, the fastest first; then those that do not, by saving; last those that
// save nothing. Ties: the larger saving, then the name.
bool ranks_before(const Lever& a, const Lever& b, std::int64_t base_device_bytes);

// Reads the scenario as load_scenario does, with its errors. Changes are evaluated on `threads` threads (0: as many as
// the machine has); the result does not depend on their number. `progress` is told how many of how many changes are
// done, one call at a time, from any of the threads.
Explanation explain(const std::string& scenario_path, const scenario::Options& options, const ExplainSettings& settings,
                    int threads = 0, const std::function<void(std::size_t, std::size_t)>& progress = {});

}  // namespace moeplan::search
