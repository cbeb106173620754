#include <memory>

#include "base/error.h"
#include "base/file.h"
#include "cli/commands.h"
#include "cli/output.h"
#include "report/notes.h"
#include "report/report.h"
#include "search/evaluate.h"
#include "search/memory_timeline.h"

namespace moeplan::cli {

void require_evidence(const topology::HardwareProfile& profile) {
  base::Faults faults;
  for (const std::string& warning : report::evidence_warnings(profile)) faults.add({"--strict", 0, 0, {}}, warning);
  faults.throw_if_any();
}

std::shared_ptr<const scenario::Scenario> load(const Arguments& arguments) {
  auto scenario =
      std::make_shared<const scenario::Scenario>(scenario::load_scenario(arguments.scenario, arguments.options));
  if (arguments.strict) require_evidence(scenario->hardware);
  return scenario;
}

namespace {

void check_rank(const Arguments& arguments, const scenario::Scenario& scenario) {
  const std::int64_t world = scenario.layout.world;
  if (!arguments.rank || (*arguments.rank >= 0 && *arguments.rank < world)) return;
  throw base::Error({"--rank", 0, 0, {}}, "expected a rank from 0 to " + std::to_string(world - 1) + ", got " +
                                              std::to_string(*arguments.rank));
}

}  // namespace

int run_command(const Context& context) {
  const Arguments& arguments = context.arguments;
  const auto scenario = load(arguments);
  check_rank(arguments, *scenario);
  if (!arguments.memory_timeline.empty())
    check_writable("--memory-timeline", arguments.memory_timeline, {arguments.scenario});
  search::Evaluation evaluation = search::evaluate(scenario, arguments.threads, {}, true);
  search::evaluate_exchanges(evaluation);
  evaluation.uncertainty = search::uncertainty(evaluation, arguments.threads);
  if (arguments.sensitivities) evaluation.sensitivities = search::sensitivities(*evaluation.plan, arguments.threads);
  context.stats.add_operations(evaluation.ops);
  context.output.text(report::run_text(evaluation));
  if (context.output.wants_json()) context.output.json(report::run_json(evaluation));
  if (!arguments.memory_timeline.empty()) {
    const std::int64_t rank = arguments.rank.value_or(evaluation.worst.rank);
    base::write_file_atomically(arguments.memory_timeline, report::memory_timeline_json(search::memory_timeline(
                                                               scenario, rank, arguments.threads)));
  }
  return evaluation.fit.verdict == search::Verdict::oom ? 1 : 0;
}

}  // namespace moeplan::cli
