#include "cli/commands.h"
#include "report/report.h"
#include "report/trace_summary.h"
#include "routing/trace.h"

namespace moeplan::cli {

int trace_info_command(const Context& context) {
  const Arguments& arguments = context.arguments;
  const routing::Trace trace = routing::read_trace(arguments.trace, arguments.top_k);
  context.output.text(report::trace_text(trace, arguments.ep));
  if (context.output.wants_json()) context.output.json(report::trace_json(trace, arguments.ep));
  return report::trace_is_sound(trace) ? 0 : 1;
}

}  // namespace moeplan::cli
