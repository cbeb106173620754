#include <memory>

#include "cli/commands.h"
#include "report/notes.h"
#include "report/report.h"
#include "search/evaluate.h"

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

int run_command(const Context& context) {
  const search::Evaluation evaluation = search::evaluate(load(context.arguments), context.arguments.threads);
  context.stats.add_operations(evaluation.ops);
  context.output.text(report::run_text(evaluation));
  if (context.output.wants_json()) context.output.json(report::run_json(evaluation));
  return evaluation.fit.verdict == search::Verdict::oom ? 1 : 0;
}

}  // namespace moeplan::cli
