#include "plan/plan.h"

#include <algorithm>
#include <atomic>
#include <cmath>
#include <exception>
#include <mutex>
#include <thread>

#include "base/check.h"
#include "base/checked.h"
#include "plan/replica_costs.h"
#include "plan/write_programs.h"

namespace moeplan::plan {

namespace {

// Runs work(i) for i in [0, count) on a few threads; results go to their own places, so the order does not matter. The
// first exception by index is rethrown.
template <class Work>
void parallel_for(std::size_t count, int threads, const Work& work) {
  const std::size_t workers = std::min<std::size_t>(static_cast<std::size_t>(std::max(threads, 1)), count);
  if (workers <= 1) {
    for (std::size_t i = 0; i < count; ++i) work(i);
    return;
  }
  std::atomic<std::size_t> next{0};
  std::mutex mutex;
  std::size_t failed_at = count;
  std::exception_ptr failure;
  {
    std::vector<std::jthread> pool;
    for (std::size_t w = 0; w < workers; ++w)
      pool.emplace_back([&] {
        for (std::size_t i = next++; i < count; i = next++) {
          try {
            work(i);
          } catch (...) {
            const std::lock_guard lock(mutex);
            if (i < failed_at) {
              failed_at = i;
              failure = std::current_exception();
            }
          }
        }
      });
  }
  if (failure) std::rethrow_exception(failure);
}

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

void decide_all(Plan& plan, int threads) {
  const auto& scenario = *plan.scenario;
  const auto& layout = scenario.layout;
  const std::int64_t moe_layers = routed_layers(scenario), microbatches = scenario.microbatches(),
                     groups = plan.groups_per_stage();
  if (moe_layers == 0) return;
  std::vector<std::vector<std::unique_ptr<policy::Policy>>> by_stage;
  for (std::int64_t stage = 0; stage < layout.pp; ++stage) by_stage.push_back(stage_policies(scenario, stage));
  const std::vector<int> layer_ids = scenario.model.moe_layer_ids();
  plan.decisions.resize(static_cast<std::size_t>(moe_layers * microbatches * groups));
  const std::int64_t slice = scenario.training.seq_length / (layout.tp * layout.cp);
  parallel_for(plan.decisions.size(), threads, [&](std::size_t index) {
    const auto i = static_cast<std::int64_t>(index);
    policy::GroupContext context;
    context.loads = scenario.loads.get();
    context.iteration = plan.iteration;
    context.group = i % groups;
    context.microbatch = i / groups % microbatches;
    const std::int64_t routed = i / groups / microbatches;
    // An MTP block routes like the last layer: traces have no rows of its own.
    context.moe_layer = std::min(routed, scenario.model.moe_layer_count() - 1);
    context.experts = scenario.model.moe.experts;
    context.top_k = scenario.model.moe.top_k;
    const std::int64_t stage = routed < scenario.model.moe_layer_count()
                                   ? scenario.stages.stage_of_layer(layer_ids[static_cast<std::size_t>(routed)])
                                   : mtp_stage(scenario);
    for (std::int64_t member = 0; member < layout.ep; ++member) {
      // Expert tensor parallel peers are neighbours, so their slices of a sequence are one.
      const auto place = layout.place(stage * layout.stage_size() + (context.group * layout.ep + member) * layout.etp);
      const std::int64_t first = (place.cp * layout.tp + place.tp) * slice;
      context.sources.push_back({place.dp, first, first + layout.etp * slice});
    }
    std::vector<const policy::Policy*> policies;
    for (const auto& p : by_stage[static_cast<std::size_t>(stage)]) policies.push_back(p.get());
    plan.decisions[index] = policy::decide(context, policies);
  });
}

// A share of rows is a quotient of whole numbers' products: what is whole must not be rounded up.
constexpr double kRounding = 1e-6;

}  // namespace

const Program& Plan::program_of(std::int64_t rank) const { return programs[static_cast<std::size_t>(group_of(rank))]; }

const policy::LayerDecision& Plan::decision(std::int64_t moe_layer, std::int64_t microbatch, std::int64_t group) const {
  const std::int64_t groups = groups_per_stage();
  return decisions[static_cast<std::size_t>((moe_layer * scenario->microbatches() + microbatch) * groups +
                                            group % groups)];
}

std::int64_t Plan::rows(const Rows& which, const Visit& visit, std::int64_t rank) const {
  if (which.kind == Rows::Kind::none) return 0;
  const auto& d = decision(visit.moe_layer, visit.microbatch, group_of(rank));
  if (which.kind == Rows::Kind::hosted) return d.extra_instances(member_of(rank));
  if (which.kind == Rows::Kind::lent) return d.lent_instances(member_of(rank));
  const auto& chunks = which.backward ? d.rows_of_backward() : d.forward_rows;
  const auto& rows = chunks[static_cast<std::size_t>(which.chunk)];
  const std::int64_t etp = scenario->layout.etp;
  switch (which.kind) {
    case Rows::Kind::received:
      return rows.received(member_of(rank));
    case Rows::Kind::arrived:
      return base::ceil_div(rows.received(member_of(rank)), etp);
    case Rows::Kind::distinct:
      return static_cast<std::int64_t>(
          std::ceil(static_cast<double>(rows.received(member_of(rank))) * distinct_share - kRounding));
    default:
      return base::ceil_div(rows.sent(member_of(rank)), etp);
  }
}

std::int64_t Plan::bytes(const Size& size, const Visit& visit, std::int64_t rank) const {
  return size.bytes + (size.bytes_per_row == 0 ? 0 : size.bytes_per_row * rows(size.rows, visit, rank));
}

Plan make_plan(std::shared_ptr<const scenario::Scenario> scenario, std::int64_t iteration, int threads) {
  Plan plan{.scenario = scenario,
            .shape = make_shape(*scenario),
            .cluster = topology::Cluster(scenario->hardware, scenario->layout.world),
            .iteration = iteration,
            .blocks = {},
            .programs = {},
            .statics = {},
            .memfine_max_rows = {},
            .distinct_share = distinct_share(*scenario),
            .decisions = {}};
  for (std::int64_t stage = 0; stage < scenario->layout.pp; ++stage) {
    plan.statics.push_back(static_memory(*scenario, stage));
    if (scenario->policies.memfine)
      plan.memfine_max_rows.push_back(memfine_max_rows(*scenario, *scenario->policies.memfine, stage));
  }
  decide_all(plan, threads);
  write_programs(plan);
  return plan;
}

}  // namespace moeplan::plan
