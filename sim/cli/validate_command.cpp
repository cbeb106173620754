#include <fmt/core.h>
#include <unistd.h>

#include <iostream>

#include "base/file.h"
#include "base/nearest.h"
#include "cli/commands.h"
#include "report/report.h"
#include "report/table.h"
#include "runs/run_scenario.h"
#include "runs/run_table.h"
#include "search/validate.h"

namespace moeplan::cli {
namespace {

// Every row with what becomes of it.
std::string listed(const runs::RunTable& table, const scenario::Options& options) {
  report::Table text({{"row", report::Align::left},
                      {"status", report::Align::left},
                      {"model", report::Align::left},
                      {"GPUs", report::Align::left},
                      {"", report::Align::left}});
  for (const runs::Run& run : table.runs) {
    const runs::ResolvedRun resolved = runs::resolve_run(run, options);
    text.add({run.id, runs::status_name(resolved.status), run.model,
              run.gpus ? fmt::format("{} {}", *run.gpus, run.gpu) : run.gpu, resolved.reason});
  }
  return text.text(0);
}

std::string row_of(const runs::RunTable& table, const std::string& id, const scenario::Options& options,
                   std::ostream& err) {
  std::vector<std::string> ids;
  for (const runs::Run& run : table.runs) {
    ids.push_back(run.id);
    if (run.id != id) continue;
    const runs::ResolvedRun resolved = runs::resolve_run(run, options);
    if (resolved.yaml.empty()) throw base::Error(run.where, "row " + id + ": " + resolved.reason);
    if (resolved.status != runs::RunStatus::ok) err << "warning: row " << id << ": " << resolved.reason << "\n";
    return resolved.yaml;
  }
  throw base::Error({"--id " + id, 0, 0, {}}, "the table has no such row", base::nearest_hint(id, ids));
}

}  // namespace

int import_runs_command(const Context& context) {
  const Arguments& arguments = context.arguments;
  if (!arguments.out.empty()) check_writable("-o", arguments.out, {arguments.input});
  const runs::RunTable table = runs::read_runs(arguments.input);
  for (const std::string& note : table.notes) context.err << "warning: " << note << "\n";
  const std::string text = arguments.id.empty() ? listed(table, arguments.options)
                                                : row_of(table, arguments.id, arguments.options, context.err);
  if (arguments.out.empty()) {
    context.output.text(text);
  } else {
    base::write_file_atomically(arguments.out, text);
  }
  return 0;
}

int validate_command(const Context& context) {
  const Arguments& arguments = context.arguments;
  if (!arguments.markdown.empty()) check_writable("--markdown", arguments.markdown, {arguments.input});
  runs::RunTable table = runs::read_runs(arguments.input);
  for (const auto& [column, value] : arguments.filters) {
    runs::keep_where(table, column, value, "--filter " + column + "=" + value);
  }
  if (table.runs.empty()) throw base::Error({arguments.input, 0, 0, {}}, "no row is left by --filter");
  const bool progress = &context.err == &std::cerr && ::isatty(STDERR_FILENO) != 0;
  std::size_t done = 0;
  const search::Validation validation = search::validate(
      table, arguments.options,
      [&](const search::ValidationRow& row) {
        context.stats.add_operations(row.ops);
        if (progress) context.err << fmt::format("\rrow {} of {}", ++done, table.runs.size()) << std::flush;
      },
      arguments.threads);
  if (progress) context.err << "\n";
  context.output.text(report::validate_text(validation));
  if (context.output.wants_json()) context.output.json(report::validate_json(validation));
  if (!arguments.markdown.empty()) {
    base::write_file_atomically(arguments.markdown, report::validate_markdown(validation));
  }
  if (validation.errors == 0) return 0;
  context.err << fmt::format("error: {} of {} rows cannot be read or are impossible\n", validation.errors,
                             validation.rows.size());
  return 1;
}

}  // namespace moeplan::cli
