#include "search/validate.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/units.h"
#include "search/in_order.h"
#include "search/intervals.h"
#include "search/memory_scope.h"
#include "search/recomputations.h"
#include "search/validate_summary.h"

namespace moeplan::search {
namespace {

constexpr double kMiB = 1024.0 * 1024.0;

double allocated_of(const memory::RankMemory& rank) { return static_cast<double>(rank.peak.allocated_bytes); }
// Of ranks whose allocator was replayed.
std::optional<double> reserved_of(const memory::RankMemory& rank) {
  return rank.has_reserved() ? std::optional<double>(static_cast<double>(rank.reserved_bytes)) : std::nullopt;
}
std::optional<double> device_of(const memory::RankMemory& rank) {
  return rank.has_reserved() ? std::optional<double>(static_cast<double>(rank.device_bytes())) : std::nullopt;
}

// Ranks whose allocator is replayed, where the row says something about it: those of the scope (the highest ranks are
// replayed anyway), or each that has a figure.
std::vector<std::int64_t> replayed_ranks(const runs::Run& run, Scope scope, const topology::Layout& layout) {
  if (!run.peak_reserved_mib_by_rank.empty()) return ranks_in(Scope::highest, layout);
  const bool wanted =
      run.peak_allocated_gib.has_value() || run.peak_reserved_gib.has_value() || run.peak_device_gib.has_value();
  return wanted && scope != Scope::highest ? ranks_in(scope, layout) : std::vector<std::int64_t>();
}

std::optional<double> highest(const std::vector<double>& mib) {
  return mib.empty() ? std::nullopt : std::optional<double>(*std::max_element(mib.begin(), mib.end()) * kMiB);
}

std::optional<double> bytes_of(const std::optional<double>& gib) {
  return gib ? std::optional<double>(*gib * base::kGiB) : std::nullopt;
}

void set_step_time(const runs::Run& run, const Evaluation* e, ValidationRow& row) {
  const double tokens = static_cast<double>(run.gbs.value_or(0)) * static_cast<double>(run.seq_len.value_or(0));
  const double gpus = static_cast<double>(run.gpus.value_or(0));
  if (run.step_time_s) {
    row.step_time_s.measured = run.step_time_s;
    row.step_time_from = "step_time_s";
  } else if (run.tokens_per_s_per_gpu && tokens > 0 && gpus > 0) {
    row.step_time_s.measured = tokens / (*run.tokens_per_s_per_gpu * gpus);
    row.step_time_from = "tokens_per_s_per_gpu";
  } else if (run.model_tflops_per_gpu && e != nullptr) {
    row.step_time_s.measured = e->flops_per_token * tokens / (*run.model_tflops_per_gpu * 1e12 * gpus);
    row.step_time_from = "model_tflops_per_gpu";
  }
  if (e != nullptr) row.step_time_s.predicted = e->step_s;
}

// Lists a rank are exact where the figure is rounded, and say the same where the scope is the highest rank.
void set_measured_memory(const runs::Run& run, Scope scope, ValidationRow& row) {
  const bool by_list = scope == Scope::highest;
  row.peak_allocated_bytes.measured = bytes_of(run.peak_allocated_gib);
  row.peak_reserved_bytes.measured = bytes_of(run.peak_reserved_gib);
  row.peak_device_bytes.measured = bytes_of(run.peak_device_gib);
  if (by_list && !run.peak_allocated_mib_by_rank.empty()) {
    row.peak_allocated_bytes.measured = highest(run.peak_allocated_mib_by_rank);
  }
  if (by_list && !run.peak_reserved_mib_by_rank.empty()) {
    row.peak_reserved_bytes.measured = highest(run.peak_reserved_mib_by_rank);
  }
}

void set_predicted_memory(const Evaluation& e, Scope scope, ValidationRow& row) {
  for (const std::int64_t id : ranks_in(scope, e.scenario->layout)) {
    const memory::RankMemory& rank = e.ranks[static_cast<std::size_t>(id)];
    const auto raise = [](std::optional<double>& value, std::optional<double> other) {
      if (other) value = std::max(value.value_or(0.0), *other);
    };
    raise(row.peak_allocated_bytes.predicted, allocated_of(rank));
    raise(row.peak_reserved_bytes.predicted, reserved_of(rank));
    raise(row.peak_device_bytes.predicted, device_of(rank));
  }
}

void set_ranks(const runs::Run& run, const Evaluation* e, ValidationRow& row) {
  const std::size_t count = std::max(run.peak_allocated_mib_by_rank.size(), run.peak_reserved_mib_by_rank.size());
  const auto measured = [](const std::vector<double>& mib, std::size_t i) {
    return i < mib.size() ? std::optional<double>(mib[i] * kMiB) : std::nullopt;
  };
  for (std::size_t i = 0; i < count; ++i) {
    RankCompared& rank = row.ranks.emplace_back();
    rank.rank = static_cast<std::int64_t>(i);
    rank.allocated.measured = measured(run.peak_allocated_mib_by_rank, i);
    rank.reserved.measured = measured(run.peak_reserved_mib_by_rank, i);
    if (e == nullptr || i >= e->ranks.size()) continue;
    rank.allocated.predicted = allocated_of(e->ranks[i]);
    rank.reserved.predicted = reserved_of(e->ranks[i]);
  }
}

std::string gib(std::int64_t bytes) { return base::format_gib(static_cast<double>(bytes)); }

std::string needs(const Fit& fit) { return gib(fit.device_bytes) + " of " + gib(fit.usable_bytes); }

// A run that was measured did fit.
void note_misfit(const runs::Run& run, const Evaluation& e, ValidationRow& row) {
  row.verdict = e.fit.verdict;
  if (e.fit.verdict != Verdict::oom) return;
  row.notes.push_back((run.recompute.empty() ? "ran, and is predicted not to fit, recomputed or not: "
                                             : "ran, and is predicted not to fit: ") +
                      needs(e.fit));
}

struct Simulated {
  runs::ResolvedRun run;
  std::optional<Evaluation> evaluation;
};

Simulated simulate(const runs::Run& run, const scenario::Options& options) {
  Simulated result{runs::resolve_run(run, options), std::nullopt};
  if (!result.run.scenario) return result;
  try {
    const auto ranks = replayed_ranks(run, scope_of(run), result.run.scenario->layout);
    result.evaluation = evaluate(result.run.scenario, 1, ranks, true);
  } catch (const base::Error& error) {  // too much work
    result.run.status = runs::RunStatus::skipped;
    result.run.reason = error.what();
  }
  return result;
}

// Where a row leaves recomputation open and does not fit without, the least recomputation with which it does is what it
// was run with, as far as one can tell.
Simulated simulate_as_it_fits(const runs::Run& run, const scenario::Options& options) {
  Simulated plain = simulate(run, options);
  if (!run.recompute.empty() || !plain.evaluation || plain.evaluation->fit.verdict != Verdict::oom) return plain;
  for (const Recomputation& tried : recomputations(*plain.run.scenario)) {
    scenario::Options recomputed = options;
    recomputed.overrides.insert(recomputed.overrides.end(), tried.overrides.begin(), tried.overrides.end());
    Simulated other = simulate(run, recomputed);
    if (!other.evaluation || other.evaluation->fit.verdict == Verdict::oom) continue;
    std::erase(other.run.assumptions, runs::kNoRecomputation);
    other.run.assumptions.push_back("recompute: " + tried.name + ", the least of those tried that fits (" +
                                    gib(other.evaluation->fit.device_bytes) + "; without " +
                                    needs(plain.evaluation->fit) + ")");
    return other;
  }
  return plain;
}

// A measured time in which the part would have to compute faster than its datasheet says is another run's, or another
// part's: the prediction is not to be judged by it.
void note_impossible(const Evaluation& e, ValidationRow& row) {
  const std::optional<double> measured = row.step_time_s.measured;
  if (!measured || !row.step_time_s.predicted || e.mfu_peak_flops <= 0) return;
  const double share = e.mfu * *row.step_time_s.predicted / *measured;  // model FLOPs alone
  if (share <= 1) return;
  row.judges_time = false;
  row.notes.push_back(
      fmt::format("the measured time means {:.0f} % of the datasheet's peak: not this run or not this part; not judged",
                  100 * share));
}

ValidationRow validate_row(const runs::Run& run, const scenario::Options& options) {
  ValidationRow row;
  row.run = run;
  row.judges_time = run.use.empty() || run.use == "time" || run.use == "time+mem";
  row.judges_memory = run.use.empty() || run.use == "mem" || run.use == "time+mem";
  const Scope scope = scope_of(run);
  row.scope = scope_name(scope);
  Simulated simulated = simulate_as_it_fits(run, options);
  const std::optional<Evaluation>& evaluation = simulated.evaluation;
  row.status = simulated.run.status;
  row.reason = std::move(simulated.run.reason);
  row.assumptions = std::move(simulated.run.assumptions);
  if (evaluation) {
    const Uncertainty off = uncertainty(*evaluation, 1);
    row.step_deviation = off.deviation;
    row.simulated_as = simulated.run.scenario->training.framework;
    row.step_range_s = off.step_s;
  }
  const Evaluation* e = evaluation ? &*evaluation : nullptr;
  if (e != nullptr) note_misfit(run, *e, row);
  set_step_time(run, e, row);
  if (e != nullptr) note_impossible(*e, row);
  set_measured_memory(run, scope, row);
  if (e != nullptr) set_predicted_memory(*e, scope, row);
  if (const auto& allocated = row.peak_allocated_bytes.predicted)
    row.allocated_range_bytes = range_of(*allocated, 1, memory_form(), 0);
  set_ranks(run, e, row);
  if (e != nullptr) row.ops = e->ops;
  return row;
}

}  // namespace

std::optional<double> Compared::error() const {
  if (!measured || !predicted || !(*measured > 0)) return std::nullopt;
  return *predicted / *measured - 1.0;
}

Validation validate(const runs::RunTable& table, const scenario::Options& options,
                    const std::function<void(const ValidationRow&)>& finished, int threads) {
  Validation result;
  result.file = table.file;
  result.notes = table.notes;
  result.rows.resize(table.runs.size());
  rows_in_order(
      result.rows, threads, [&](std::size_t i) { return validate_row(table.runs[i], options); }, finished);
  add_summaries(result);
  add_intervals(result);
  result.pairs = option_pairs(result.rows);
  return result;
}

}  // namespace moeplan::search
