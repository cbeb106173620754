#include "plan/decide.h"

#include <algorithm>
#include <map>
#include <memory>
#include <numeric>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/parallel.h"
#include "plan/replica_costs.h"

namespace moeplan::plan {

namespace {

// MoE layers with those of the MTP blocks behind them: every one has its own decisions.
std::int64_t routed_layers(const scenario::Scenario& scenario) {
  const bool mtp_routes = scenario.model.mtp_layers > 0 && scenario.model.mtp_kind() == model::LayerKind::moe;
  return scenario.model.moe_layer_count() + (mtp_routes ? scenario.model.mtp_layers : 0);
}

std::vector<std::unique_ptr<policy::Policy>> stage_policies(const scenario::Scenario& scenario, std::int64_t stage) {
  std::vector<std::unique_ptr<policy::Policy>> list;
  if (scenario.policies.capacity) list.push_back(policy::make_capacity(*scenario.policies.capacity));
  if (scenario.policies.memfine)
    list.push_back(policy::make_memfine(*scenario.policies.memfine,
                                        memfine_max_rows(scenario, *scenario.policies.memfine, stage)));
  if (scenario.policies.lrmoe)
    list.push_back(policy::make_lrmoe(*scenario.policies.lrmoe, lrmoe_memory_rows(scenario, stage),
                                      replica_costs(scenario, stage)));
  return list;
}

std::int64_t mtp_stage(const scenario::Scenario& scenario) {
  for (std::int64_t stage = 0; stage < scenario.layout.pp; ++stage)
    if (scenario.stages.mtp_on(stage) > 0) return stage;
  MOEPLAN_CHECK(false, "MTP blocks have a stage");
}

// What a decision depends on where loads are the same every time and no policy draws by place.
using Question = std::pair<std::int64_t, std::vector<std::int64_t>>;  // routed layer; where each source's slice begins

class Decider {
 public:
  explicit Decider(const Plan& plan) : plan_(plan), layer_ids_(plan.scenario->model.moe_layer_ids()) {
    for (std::int64_t stage = 0; stage < plan.scenario->layout.pp; ++stage)
      by_stage_.push_back(stage_policies(*plan.scenario, stage));
  }

  policy::GroupContext context(std::int64_t index) const {
    const auto& scenario = *plan_.scenario;
    const auto& layout = scenario.layout;
    const std::int64_t groups = plan_.groups_per_stage(), microbatches = scenario.microbatches();
    const std::int64_t slice = scenario.training.seq_length / (layout.tp * layout.cp);
    policy::GroupContext context;
    context.loads = scenario.loads.get();
    context.iteration = plan_.iteration;
    context.group = index % groups;
    context.microbatch = index / groups % microbatches;
    // An MTP block routes like the last layer: traces have no rows of its own.
    context.moe_layer = std::min(routed_layer(index), scenario.model.moe_layer_count() - 1);
    context.experts = scenario.model.moe.experts;
    context.top_k = scenario.model.moe.top_k;
    const std::int64_t stage = stage_of(index);
    for (std::int64_t member = 0; member < layout.ep; ++member) {
      // Expert tensor parallel peers are neighbours, so their slices of a sequence are one.
      const auto place = layout.place(stage * layout.stage_size() + (context.group * layout.ep + member) * layout.etp);
      const std::int64_t first = (place.cp * layout.tp + place.tp) * slice;
      context.sources.push_back({place.dp, first, first + layout.etp * slice});
    }
    return context;
  }

  policy::LayerDecision decide(std::int64_t index) const {
    std::vector<const policy::Policy*> policies;
    for (const auto& p : by_stage_[static_cast<std::size_t>(stage_of(index))]) policies.push_back(p.get());
    return policy::decide(context(index), policies);
  }

  Question question(std::int64_t index) const {
    Question q;
    q.first = routed_layer(index);
    for (const auto& source : context(index).sources) q.second.push_back(source.begin);
    return q;
  }

 private:
  std::int64_t routed_layer(std::int64_t index) const {
    return index / plan_.groups_per_stage() / plan_.scenario->microbatches();
  }
  std::int64_t stage_of(std::int64_t index) const {
    const std::int64_t routed = routed_layer(index);
    return routed < plan_.scenario->model.moe_layer_count()
               ? plan_.scenario->stages.stage_of_layer(layer_ids_[static_cast<std::size_t>(routed)])
               : mtp_stage(*plan_.scenario);
  }

  const Plan& plan_;
  std::vector<int> layer_ids_;
  std::vector<std::vector<std::unique_ptr<policy::Policy>>> by_stage_;
};

// Only what differs is decided: equal questions have one answer, and equal answers are kept once.
void decide_repeating(Plan& plan, const Decider& decider) {
  const std::int64_t groups = plan.groups_per_stage(), microbatches = plan.scenario->microbatches();
  std::map<Question, std::int32_t> answers;
  std::vector<std::int32_t> of_group(static_cast<std::size_t>(groups));
  for (std::int64_t layer = 0; layer < routed_layers(*plan.scenario); ++layer) {
    for (std::int64_t group = 0; group < groups; ++group) {
      const std::int64_t index = layer * microbatches * groups + group;
      const auto [entry, is_new] = answers.try_emplace(decider.question(index), 0);
      if (is_new) {
        policy::LayerDecision decision = decider.decide(index);
        const auto equal = std::find(plan.decisions.begin(), plan.decisions.end(), decision);
        entry->second = static_cast<std::int32_t>(equal - plan.decisions.begin());
        if (equal == plan.decisions.end()) plan.decisions.push_back(std::move(decision));
      }
      of_group[static_cast<std::size_t>(group)] = entry->second;
    }
    for (std::int64_t mb = 0; mb < microbatches; ++mb)
      plan.decision_of.insert(plan.decision_of.end(), of_group.begin(), of_group.end());
  }
}

}  // namespace

void decide_all(Plan& plan, int threads) {
  const auto& scenario = *plan.scenario;
  const std::int64_t count = routed_layers(scenario) * scenario.microbatches() * plan.groups_per_stage();
  if (count == 0) return;
  const Decider decider(plan);
  if (scenario.loads->same_in_iteration() && !scenario.policies.lrmoe && !scenario.policies.capacity) {
    decide_repeating(plan, decider);
    return;
  }
  plan.decisions.resize(static_cast<std::size_t>(count));
  plan.decision_of.resize(plan.decisions.size());
  std::iota(plan.decision_of.begin(), plan.decision_of.end(), 0);
  base::parallel_for(plan.decisions.size(), threads, [&](std::size_t index) {
    plan.decisions[index] = decider.decide(static_cast<std::int64_t>(index));
  });
}

}  // namespace moeplan::plan
