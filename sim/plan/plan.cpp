#include "plan/plan.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <mutex>
#include <thread>

#include "base/check.h"
#include "base/checked.h"
#include "plan/decide.h"
#include "plan/fold.h"
#include "plan/rank_rows.h"
#include "plan/replica_costs.h"
#include "plan/write_programs.h"

namespace moeplan::plan {

const Program& Plan::program_of(std::int64_t rank) const {
  const bool folded = fold < scenario->layout.stage_size();
  return programs[static_cast<std::size_t>(folded ? stage_of(rank) : group_of(rank))];
}

std::size_t Plan::decision_number(std::int64_t moe_layer, std::int64_t microbatch, std::int64_t group) const {
  const std::int64_t groups = groups_per_stage();
  const auto at =
      static_cast<std::size_t>((moe_layer * scenario->microbatches() + microbatch) * groups + group % groups);
  return static_cast<std::size_t>(decision_of[at]);
}

const policy::LayerDecision& Plan::decision(std::int64_t moe_layer, std::int64_t microbatch, std::int64_t group) const {
  return decisions[decision_number(moe_layer, microbatch, group)];
}

std::int64_t Plan::rows(const Rows& which, const Visit& visit, std::int64_t rank) const {
  return which.kind == Rows::Kind::none ? 0 : RankRows(*this, rank).rows(which, visit);
}

std::int64_t Plan::summed_rows(std::size_t number, const Rows& which, std::int64_t member, bool sent) const {
  const policy::LayerDecision& d = decisions[number];
  const auto chunk = static_cast<std::size_t>(which.chunk);
  const bool of_backward = which.backward && !d.backward_rows.empty();
  if (row_sums.size() != decisions.size()) {
    const auto& rows = (of_backward ? d.backward_rows : d.forward_rows)[chunk];
    return sent ? rows.sent(member) : rows.received(member);
  }
  const std::size_t matrix = (of_backward ? d.forward_rows.size() : 0) + chunk;
  const std::size_t members = static_cast<std::size_t>(scenario->layout.ep);
  return row_sums[number][(2 * matrix + (sent ? 1 : 0)) * members + static_cast<std::size_t>(member)];
}

void sum_rows(Plan& plan) {
  plan.row_sums.clear();
  plan.row_sums.reserve(plan.decisions.size());
  const auto members = static_cast<std::size_t>(plan.scenario->layout.ep);
  for (const policy::LayerDecision& decision : plan.decisions) {
    std::vector<std::int32_t>& sums =
        plan.row_sums.emplace_back(2 * members * (decision.forward_rows.size() + decision.backward_rows.size()), 0);
    std::int32_t* received = sums.data();
    for (const auto* list : {&decision.forward_rows, &decision.backward_rows})
      for (const policy::RoutedRows& rows : *list) {
        const std::int32_t* entry = rows.matrix.data();
        std::int32_t* sent = received + members;
        for (std::size_t i = 0; i < members; ++i)  // fit: all rows of a group do (docs/scenario.md, Bounds)
          for (std::size_t j = 0; j < members; ++j, ++entry) {
            received[j] += *entry;
            sent[i] += *entry;
          }
        received += 2 * members;
      }
  }
}

std::int64_t Plan::bytes(const Size& size, const Visit& visit, std::int64_t rank) const {
  return size.bytes + (size.bytes_per_row == 0 ? 0 : size.bytes_per_row * rows(size.rows, visit, rank));
}

namespace {

// All but decisions and programs.
Plan undecided(std::shared_ptr<const scenario::Scenario> scenario, std::int64_t iteration) {
  Plan plan{.scenario = scenario,
            .shape = make_shape(*scenario),
            .cluster = topology::Cluster(scenario->hardware, scenario->layout.world),
            .iteration = iteration,
            .blocks = {},
            .programs = {},
            .statics = {},
            .memfine_max_rows = {},
            .distinct_share = distinct_share(*scenario),
            .fold = scenario->layout.stage_size(),
            .decisions = {},
            .decision_of = {},
            .row_sums = {}};
  for (std::int64_t stage = 0; stage < scenario->layout.pp; ++stage) {
    plan.statics.push_back(static_memory(*scenario, stage));
    if (scenario->policies.memfine)
      plan.memfine_max_rows.push_back(memfine_max_rows(*scenario, *scenario->policies.memfine, stage));
  }
  return plan;
}

}  // namespace

Plan make_plan(std::shared_ptr<const scenario::Scenario> scenario, std::int64_t iteration, int threads) {
  Plan plan = undecided(std::move(scenario), iteration);
  decide_all(plan, threads);
  sum_rows(plan);
  plan.fold = equal_ranks(plan);
  write_programs(plan);
  return plan;
}

bool decides_by_time(const scenario::Scenario& scenario) {
  const auto& lrmoe = scenario.policies.lrmoe;  // hosts copies of experts where that saves time
  return lrmoe && lrmoe->replicas != policy::LrmoeSettings::Replicas::none;
}

Plan repriced(const Plan& plan, std::shared_ptr<const scenario::Scenario> scenario, int threads) {
  if (decides_by_time(*scenario)) return make_plan(std::move(scenario), plan.iteration, threads);
  Plan result = undecided(std::move(scenario), plan.iteration);
  result.decisions = plan.decisions;
  result.decision_of = plan.decision_of;
  result.row_sums = plan.row_sums;
  result.fold = equal_ranks(result);
  write_programs(result);
  return result;
}

}  // namespace moeplan::plan
