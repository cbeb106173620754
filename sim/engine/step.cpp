#include "engine/step.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "engine/lockstep.h"
#include "engine/plan_source.h"

namespace moeplan::engine {

double TimeParts::total() const {
  double sum = recompute_s + exposed_ep_s + exposed_tp_s + exposed_pp_s + exposed_dp_s + exposed_offload_s +
               imbalance_wait_s + bubble_s + host_s;
  for (double s : family_s) sum += s;
  return sum;
}

void TimeParts::add(const TimeParts& other, double weight) {
  for (std::size_t i = 0; i < family_s.size(); ++i) family_s[i] += weight * other.family_s[i];
  recompute_s += weight * other.recompute_s;
  exposed_ep_s += weight * other.exposed_ep_s;
  exposed_tp_s += weight * other.exposed_tp_s;
  exposed_pp_s += weight * other.exposed_pp_s;
  exposed_dp_s += weight * other.exposed_dp_s;
  exposed_offload_s += weight * other.exposed_offload_s;
  imbalance_wait_s += weight * other.imbalance_wait_s;
  bubble_s += weight * other.bubble_s;
  host_s += weight * other.host_s;
}

namespace {

// By max-plus over single ops: any plan.
StandingTimes run_ops(const plan::Plan& plan, const ExchangeFactors* factors) {
  PlanSource source(plan, factors);
  RunResult result = run_max_plus(source);
  StandingTimes times;
  times.finish_ps = std::move(result.finish_ps);
  times.makespan_ps = result.makespan_ps;
  times.ops = result.ops;
  for (std::int64_t standing = 0; standing < source.ranks(); ++standing) {
    times.clock_ps.push_back(source.clock_ps(standing));
    times.parts.push_back(source.parts_of(standing));
  }
  return times;
}

StepTime summarise(const plan::Plan& plan, const StandingTimes& times) {
  StepTime step;
  step.step_s = static_cast<double>(times.makespan_ps) * kPicosecond;
  step.ops = times.ops;
  const auto& layout = plan.scenario->layout;
  step.ranks.reserve(static_cast<std::size_t>(layout.world));
  for (std::int64_t r = 0; r < layout.world; ++r) {
    const auto standing = static_cast<std::size_t>(plan.stage_of(r) * plan.fold + r % layout.stage_size() % plan.fold);
    RankTime time;
    time.rank = r;
    time.finish_s = static_cast<double>(times.finish_ps[standing]) * kPicosecond;
    time.busy_s = times.parts[standing].busy_s();
    time.parts = times.parts[standing].seconds();
    // What is left: the host's own tail, then waiting for the ranks that finish later.
    time.parts.host_s += time.finish_s - static_cast<double>(times.clock_ps[standing]) * kPicosecond;
    time.parts.bubble_s += step.step_s - time.finish_s;
    step.mean.add(time.parts, 1.0 / static_cast<double>(layout.world));
    step.ranks.push_back(time);
  }
  return step;
}

}  // namespace

StepTime run_step(const plan::Plan& plan, const ExchangeFactors* factors) {
  std::optional<StandingTimes> times = run_lockstep(plan, factors);
  return summarise(plan, times ? *times : run_ops(plan, factors));
}

StepTime run_step_by_ops(const plan::Plan& plan, const ExchangeFactors* factors) {
  return summarise(plan, run_ops(plan, factors));
}

std::vector<std::vector<OpClock>> op_clocks(const plan::Plan& plan, std::int64_t rank) {
  PlanSource source(plan);
  std::vector<OpTimes> times;
  source.record(source.standing_of(rank), &times);
  run_max_plus(source);
  std::vector<std::vector<OpClock>> clocks;
  OpClock now;
  std::size_t next = 0;
  for (const plan::Visit& visit : plan.program_of(rank).visits) {
    const plan::Block& block = plan.blocks[static_cast<std::size_t>(visit.block)];
    const auto& ops = plan::ops_of(block, visit.direction);
    std::vector<OpClock>& of_visit = clocks.emplace_back(ops.size());
    for (std::size_t o = visit.first_op; o < std::min<std::size_t>(visit.end_op, ops.size()); ++o) {
      if (ops[o].work != plan::Work::fixed || ops[o].launches != 0) {
        const OpTimes& t = times.at(next++);
        now = {static_cast<double>(t.issued_ps) * kPicosecond, static_cast<double>(t.start_ps) * kPicosecond,
               static_cast<double>(t.end_ps) * kPicosecond};
      }
      of_visit[o] = now;
    }
  }
  return clocks;
}

}  // namespace moeplan::engine
