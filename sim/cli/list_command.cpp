#include <algorithm>
#include <array>

#include "base/nearest.h"
#include "cli/commands.h"
#include "config/data.h"
#include "policy/policies.h"
#include "report/catalogue.h"
#include "scenario/resolve.h"
#include "schedule/schedule.h"
#include "topology/layout.h"

namespace moeplan::cli {
namespace {

const std::array<std::string, 7> kTopics = {"models",    "hardware", "policies", "dispatchers",
                                            "schedules", "keys",     "groups"};

// The entry called `name`, or all of them, each read and checked.
template <class Entry, class Read>
std::vector<Entry> read_entries(const char* kind, const Arguments& arguments, const Read& read) {
  const config::Catalogue catalogue(kind, arguments.options.data_dirs);
  const std::vector<std::string> names =
      arguments.name.empty() ? catalogue.names() : std::vector<std::string>{arguments.name};
  base::Faults faults;
  std::vector<Entry> entries;
  for (const std::string& name : names) {
    try {
      entries.push_back(read(catalogue.load(name, "", {"list " + arguments.topic, 0, 0, {}}), name, faults));
    } catch (const base::Error& error) {
      faults.add(error);
    }
  }
  faults.throw_if_any();
  return entries;
}

void list_models(const Context& context) {
  const auto models = read_entries<model::Architecture>("models", context.arguments, model::read_architecture);
  context.output.text(context.arguments.name.empty() ? report::models_text(models)
                                                     : report::model_text(models.front()));
  if (context.output.wants_json()) context.output.json(report::models_json(models));
}

void list_hardware(const Context& context) {
  const auto profiles =
      read_entries<topology::HardwareProfile>("hw_profiles", context.arguments, topology::read_hardware);
  context.output.text(context.arguments.name.empty() ? report::hardware_text(profiles)
                                                     : report::profile_text(profiles.front()));
  if (context.output.wants_json()) context.output.json(report::hardware_json(profiles));
}

// The parallel groups of a scenario, in Megatron's rank order.
void list_groups(const Context& context) {
  const std::string& scenario = context.arguments.name;
  if (scenario.empty())
    throw base::Error({"list groups", 0, 0, {}}, "expected the scenario whose groups are asked for");
  const auto resolved = scenario::load_scenario(scenario, context.arguments.options);
  const std::string text = topology::groups_text(resolved.layout) + "stages " + resolved.stages.text() + "\n";
  context.output.text(text);
  if (context.output.wants_json()) context.output.json(report::names_json("groups", {{"text", text}}));
}

report::Names names_of(const std::string& topic) {
  report::Names names;
  if (topic == "policies") {
    for (const policy::PolicyEntry& entry : policy::policy_table()) names.emplace_back(entry.name, entry.description);
  } else if (topic == "schedules") {
    for (const schedule::ScheduleEntry& entry : schedule::schedule_table()) {
      names.emplace_back(entry.name, entry.description);
    }
  } else if (topic == "dispatchers") {
    const std::array<const char*, 4> descriptions = {
        "whole rows to the rank of each expert, by all-to-all inside the expert-parallel group",
        "all tokens to all ranks of the expert-parallel group, and sums back; Megatron's default",
        "kernels that send a row once to each rank, and once to each domain over NICs",
        "as deepep, into rows that are sorted by expert already; buffers may be of a fixed size"};
    for (std::size_t i = 0; i < descriptions.size(); ++i)
      names.emplace_back(scenario::dispatcher_names()[i], descriptions[i]);
  } else {
    names = scenario::scenario_keys();
  }
  return names;
}

}  // namespace

int list_command(const Context& context) {
  const Arguments& arguments = context.arguments;
  const std::string& topic = arguments.topic;
  if (std::find(kTopics.begin(), kTopics.end(), topic) == kTopics.end()) {
    throw base::Error({"list", 0, 0, {}}, "expected one of " + base::join_names(kTopics) + ", got '" + topic + "'",
                      base::nearest_hint(topic, kTopics));
  }
  if (topic == "models") {
    list_models(context);
  } else if (topic == "hardware") {
    list_hardware(context);
  } else if (topic == "groups") {
    list_groups(context);
  } else {
    if (!arguments.name.empty())
      throw base::Error({"list " + topic, 0, 0, {}}, "takes no name, got '" + arguments.name + "'");
    const report::Names names = names_of(topic);
    context.output.text(
        report::names_text(topic == "keys" ? "key" : "name", topic == "keys" ? "short" : "what it is", names));
    if (context.output.wants_json()) context.output.json(report::names_json(topic, names));
  }
  return 0;
}

}  // namespace moeplan::cli
