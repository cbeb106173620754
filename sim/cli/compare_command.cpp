#include <algorithm>

#include "cli/commands.h"
#include "report/format.h"
#include "report/report.h"
#include "scenario/limits.h"
#include "search/compare.h"

namespace moeplan::cli {
namespace {

// Every name is known and no set of policies needs more work than the bound: seen before the first is evaluated.
void check_policies(const scenario::Scenario& scenario, const Arguments& arguments, const base::Where& where) {
  base::Faults faults;
  for (const std::string& names : arguments.policies) {
    try {
      const scenario::Scenario variant = scenario::with_policies(scenario, names, where);
      scenario::check_work(variant, arguments.options.limit, scenario::Places({"--policies " + names, 0, 0, {}}),
                           faults);
    } catch (const base::Error& error) {
      faults.add(error);
    }
  }
  faults.throw_if_any();
}

// Of the default sets those that the scenario's dispatcher and layout allow.
std::vector<std::string> possible(const scenario::Scenario& scenario, const std::vector<std::string>& sets,
                                  std::ostream& err) {
  std::vector<std::string> kept;
  for (const std::string& names : sets) {
    try {
      (void)scenario::with_policies(scenario, names, {});
      kept.push_back(names);
    } catch (const base::Error& error) {
      err << "note: " << names << " is left out: " << error.faults().front().message << "\n";
    }
  }
  return kept;
}

}  // namespace

int compare_command(const Context& context) {
  Arguments arguments = context.arguments;
  const auto scenario = load(arguments);
  if (arguments.default_policies && scenario->model.moe_layer_count() > 0)
    arguments.policies = possible(*scenario, arguments.policies, context.err);
  const base::Where where{"--policies " + report::joined(arguments.policies, ","), 0, 0, {}};
  check_policies(*scenario, arguments, where);
  const auto results = search::compare_policies(*scenario, arguments.policies, where, arguments.threads);
  for (const search::PolicyResult& result : results) context.stats.add_operations(result.evaluation.ops);
  context.output.text(report::compare_text(results));
  if (context.output.wants_json()) context.output.json(report::compare_json(results));
  const bool any = std::any_of(results.begin(), results.end(), [](const auto& result) {
    return result.evaluation.fit.verdict != search::Verdict::oom;
  });
  return any ? 0 : 1;
}

}  // namespace moeplan::cli
