#include <fmt/core.h>
#include <unistd.h>

#include <iostream>

#include "cli/commands.h"
#include "report/report.h"
#include "search/explain.h"

namespace moeplan::cli {

int explain_command(const Context& context) {
  const Arguments& arguments = context.arguments;
  search::ExplainSettings settings;
  settings.pairs_of = static_cast<std::size_t>(arguments.pairs);
  if (!arguments.oom_line.empty()) settings.oom_line = search::parse_oom_line(arguments.oom_line);
  if (arguments.strict) load(arguments);  // refused before the work
  const bool progress = &context.err == &std::cerr && ::isatty(STDERR_FILENO) != 0;
  const search::Explanation explanation = search::explain(
      arguments.scenario, arguments.options, settings, arguments.threads, [&](std::size_t done, std::size_t total) {
        if (progress) context.err << fmt::format("\rchange {} of {} ", done, total) << std::flush;
      });
  if (progress) context.err << "\r" << std::string(24, ' ') << "\r" << std::flush;
  context.stats.add_operations(explanation.ops());
  context.output.text(report::explain_text(explanation, static_cast<std::size_t>(arguments.top)));
  if (context.output.wants_json()) context.output.json(report::explain_json(explanation));
  return explanation.base.fit.verdict == search::Verdict::oom && explanation.advice() == nullptr ? 1 : 0;
}

}  // namespace moeplan::cli
