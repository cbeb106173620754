#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "runs/run_scenario.h"
#include "runs/run_table.h"
#include "scenario/resolve.h"
#include "search/evaluate.h"
#include "search/option_pairs.h"

// `moeplan validate`: every row of a table of measured runs simulated, predicted against measured.
namespace moeplan::search {

// In bytes or seconds. Nothing where the row does not state it or where it is not predicted.
struct Compared {
  std::optional<double> measured, predicted;
  std::optional<double> error() const;  // predicted / measured - 1
};

struct RankCompared {
  std::int64_t rank = 0;
  Compared allocated, reserved;
};

struct ValidationRow {
  runs::Run run;
  runs::RunStatus status = runs::RunStatus::ok;
  std::string reason;  // why it was skipped, or what is wrong with it
  std::vector<std::string> assumptions;
  std::optional<Verdict> verdict;  // of the simulated run
  std::vector<std::string> notes;  // what makes the prediction doubtful: that a run that was measured does not fit
  std::string scope;               // of the memory figures: "rank 0", "the highest rank", ...
  std::string step_time_from;      // the column that the measured step time comes from
  bool judges_time = false, judges_memory = false;  // by `use`: counts in the summaries
  Compared step_time_s, peak_allocated_bytes, peak_reserved_bytes, peak_device_bytes;
  // At 90 %, where predicted; and what the cost models' spreads make of the step (docs/models.md, Uncertainty).
  std::optional<Range> step_range_s, allocated_range_bytes;
  double step_deviation = 0;
  scenario::Framework simulated_as = scenario::Framework::megatron;
  std::vector<RankCompared> ranks;  // where the row has figures a rank
  std::int64_t ops = 0;             // engine ops evaluated, for --stats
};

// Signed errors of one metric.
struct ErrorSummary {
  std::int64_t n = 0, over = 0, under = 0;
  double mean_absolute = 0, median_absolute = 0, mean = 0, worst = 0;
  std::string worst_id;
};

struct SummaryLine {
  std::string by, value;  // "total", "model", "gpu", "framework", "routing", and which
  ErrorSummary step_time, allocated, reserved, device;
};

// Half of the groups tell what runs are off, the others judge the intervals that this version gives, which rest on the
// former half of the table behind docs/validation.md. A hash of its name says to which half a group belongs, so that it
// is the same half in every table.
struct Intervals {
  std::int64_t fitted = 0, kept_out = 0, inside = 0;  // rows; inside: of those kept out
  FormError form;                                     // of the fitted
  double width = 0;                                   // of those kept out: median of high / low
};

struct Validation {
  std::string file;
  std::vector<std::string> notes;  // of the table
  std::vector<ValidationRow> rows;
  std::int64_t ok = 0, skipped = 0, errors = 0;
  std::int64_t judged = 0;                        // rows in the summaries
  std::vector<SummaryLine> summary;               // the total first
  Intervals step_intervals, allocated_intervals;  // of step time: rows of grade A, or that state none
  Intervals step_intervals_not_all_stated;        // of the others, none of which tells
  std::vector<std::pair<std::string, Intervals>> step_intervals_by_framework;  // as simulated; those that have rows
  std::vector<OptionPair> pairs;               // runs that differ in one option, also those that are not judged
  ErrorSummary rank_allocated, rank_reserved;  // over every rank of the rows in the summary that have figures a rank
};

// Simulates the rows in threads (0: as many as the machine has); the result does not depend on their number. `finished`
// is called once a row, in order.
Validation validate(const runs::RunTable& table, const scenario::Options& options,
                    const std::function<void(const ValidationRow&)>& finished, int threads = 0);

// The rows that stand in summaries: one a group, the first in file order (the newest release); where a group holds
// deliberate variants (runs of one release that differ in recompute, recompute_modules or ep_overlap), one a variant.
// Of the rows for which `counts` holds.
std::vector<const ValidationRow*> one_a_group(const std::vector<ValidationRow>& rows,
                                              const std::function<bool(const ValidationRow&)>& counts);

// Of (id, error); an empty list gives n = 0. The worst is the largest in magnitude, the first on ties.
ErrorSummary summarize(const std::vector<std::pair<std::string, double>>& errors);

}  // namespace moeplan::search
