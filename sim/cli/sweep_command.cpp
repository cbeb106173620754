#include <fmt/core.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <optional>

#include "cli/commands.h"
#include "cli/row_file.h"
#include "report/report.h"
#include "search/sweep.h"

namespace moeplan::cli {
namespace {

using Clock = std::chrono::steady_clock;

// The reader of standard output is gone and no file wants the rows.
struct OutputClosed {};

// Rows that are done. They are appended to the files of --csv and --jsonl at once. The JSON file is rewritten as they
// come, but not more often than twice a second, and so that writing takes a tenth of the time at most.
class Rows {
 public:
  Rows(const Context& context, const std::vector<search::Axis>& axes)
      : context_(context),
        axes_(axes),
        csv_("--csv", context.arguments.csv, {context.arguments.scenario}),
        jsonl_("--jsonl", context.arguments.jsonl, {context.arguments.scenario}) {}

  void start() {
    context_.output.text(report::sweep_header(axes_));
    csv_.add(report::sweep_csv_header(axes_));
  }

  void add(const search::SweepRow& row) {
    context_.output.text(report::sweep_row(axes_, row));
    if (csv_.wanted()) csv_.add(report::sweep_csv_row(row));
    if (jsonl_.wanted()) jsonl_.add(report::sweep_jsonl_row(axes_, row));
    if (!row.evaluation && first_error_.empty()) first_error_ = row.error;
    if (row.evaluation) {
      any_evaluated_ = true;
      context_.stats.add_operations(row.evaluation->ops);
      any_fits_ = any_fits_ || row.evaluation->fit.verdict != search::Verdict::oom;
      if (context_.arguments.strict) collect_evidence(row.evaluation->scenario->hardware);
    }
    if (!context_.output.wants_json()) {
      if (!context_.output.open() && !csv_.wanted() && !jsonl_.wanted()) throw OutputClosed{};
      return;
    }
    rows_.push_back(slim(row));
    if (context_.output.to_file() && Clock::now() >= next_write_) write(false);
  }

  void write(bool complete) {
    const Clock::time_point start = Clock::now();
    context_.output.json(report::sweep_json(axes_, rows_, complete));
    const Clock::time_point end = Clock::now();
    next_write_ = end + std::max<Clock::duration>(std::chrono::milliseconds(500), 10 * (end - start));
  }

  bool any_fits() const { return any_fits_; }
  void throw_evidence() const { evidence_.throw_if_any(); }
  // Bad input rather than a "no": not one combination could be looked at.
  void require_any() const {
    if (any_evaluated_ || first_error_.empty()) return;
    throw base::Error({context_.arguments.scenario, 0, 0, {}},
                      "every combination was refused, the first for: " + first_error_);
  }

 private:
  // What sweep_json reads of a row: of the ranks only the one that it takes the routed bytes from.
  static search::SweepRow slim(const search::SweepRow& row) {
    search::SweepRow copy = row;
    if (!copy.evaluation) return copy;
    search::Evaluation& e = *copy.evaluation;
    const auto most = std::max_element(e.ranks.begin(), e.ranks.end(), [](const auto& a, const auto& b) {
      return a.routed_peak_bytes < b.routed_peak_bytes;
    });
    if (most != e.ranks.end()) e.ranks = std::vector<memory::RankMemory>{memory::RankMemory(*most)};
    e.alive.clear();
    e.routing.layers.clear();
    return copy;
  }

  void collect_evidence(const topology::HardwareProfile& profile) {
    try {
      require_evidence(profile);
    } catch (const base::Error& error) {
      evidence_.add(error);
    }
  }

  const Context& context_;
  const std::vector<search::Axis>& axes_;
  RowFile csv_, jsonl_;
  std::vector<search::SweepRow> rows_;
  base::Faults evidence_;
  std::string first_error_;
  bool any_fits_ = false, any_evaluated_ = false;
  Clock::time_point next_write_ = Clock::now() + std::chrono::milliseconds(500);
};

std::vector<search::Axis> parse_axes(const std::vector<std::string>& texts) {
  base::Faults faults;
  std::vector<search::Axis> axes;
  for (const std::string& text : texts) {
    try {
      axes.push_back(search::parse_axis(text));
    } catch (const base::Error& error) {
      faults.add(error);
    }
  }
  faults.throw_if_any();
  return axes;
}

// Under --strict the first combination is checked before any work; the others where their rows end.
void check_first(const Arguments& arguments, const std::vector<search::Axis>& axes) {
  scenario::Options options = arguments.options;
  for (const search::Axis& axis : axes) options.overrides.emplace_back(axis.key, axis.values.front());
  std::optional<scenario::Scenario> first;
  try {
    first = scenario::load_scenario(arguments.scenario, options);
  } catch (const base::Error&) {
    return;  // becomes the error of its row
  }
  require_evidence(first->hardware);
}

// A line that counts rows: where a person watches and the rows themselves go elsewhere.
bool shows_progress(const Context& context) {
  if (&context.err != &std::cerr || ::isatty(STDERR_FILENO) == 0) return false;
  return context.output.json_alone() || ::isatty(STDOUT_FILENO) == 0;
}

}  // namespace

int sweep_command(const Context& context) {
  const Arguments& arguments = context.arguments;
  const std::vector<search::Axis> axes = parse_axes(arguments.vary);
  Rows rows(context, axes);
  if (arguments.strict) check_first(arguments, axes);
  std::size_t total = 1, done = 0;
  for (const search::Axis& axis : axes) total *= axis.values.size();
  const bool progress = shows_progress(context);
  bool started = false;
  try {
    search::run_sweep(
        arguments.scenario, arguments.options, axes,
        [&](const search::SweepRow& row) {
          if (!started) rows.start();
          started = true;
          rows.add(row);
          if (progress) context.err << fmt::format("\rrow {} of {}", ++done, total) << std::flush;
        },
        arguments.threads);
  } catch (const OutputClosed&) {
    return rows.any_fits() ? 0 : 1;
  } catch (...) {
    if (progress) context.err << "\n";
    if (started && context.output.wants_json()) rows.write(false);
    throw;
  }
  if (progress) context.err << "\n";
  if (context.output.wants_json()) rows.write(true);
  rows.throw_evidence();
  rows.require_any();
  return rows.any_fits() ? 0 : 1;
}

}  // namespace moeplan::cli
