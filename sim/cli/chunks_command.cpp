#include <memory>

#include "cli/commands.h"
#include "report/report.h"
#include "scenario/limits.h"
#include "search/chunk_sweep.h"

namespace moeplan::cli {
namespace {

// Rules and the bound of work were checked for the scenario's own policies; the largest count asked for may need more.
void check_largest(const scenario::Scenario& scenario, std::int64_t chunks, double limit) {
  scenario::Scenario variant = scenario;
  policy::MemfineSettings settings = scenario.policies.memfine.value_or(policy::MemfineSettings{});
  settings.rule = policy::MemfineSettings::Rule::fixed;
  settings.chunks = chunks;
  variant.policies.memfine = settings;
  if (const std::string obstacle = scenario::policy_obstacle(variant); !obstacle.empty())
    throw base::Error({"chunks", 0, 0, {}}, obstacle);
  base::Faults faults;
  scenario::check_work(variant, limit, scenario::Places({"--counts " + std::to_string(chunks), 0, 0, {}}), faults);
  faults.throw_if_any();
}

}  // namespace

int chunks_command(const Context& context) {
  const Arguments& arguments = context.arguments;
  const auto scenario = load(arguments);
  if (scenario->model.moe_layer_count() == 0) {
    throw base::Error(scenario->model.where_layers,
                      "chunks needs a model with MoE layers, " + scenario->model.id + " has none");
  }
  check_largest(*scenario, arguments.counts.back(), arguments.options.limit);
  const search::ChunkSweep sweep = search::sweep_chunks(*scenario, arguments.counts, arguments.threads);
  for (const search::ChunkPoint& point : sweep.curve) context.stats.add_operations(point.evaluation.ops);
  context.output.text(report::chunks_text(sweep));
  if (context.output.wants_json()) context.output.json(report::chunks_json(sweep));
  return sweep.recommendation.fits ? 0 : 1;
}

}  // namespace moeplan::cli
