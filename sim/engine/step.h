#pragma once
#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "engine/engine.h"
#include "plan/plan.h"

// One training step in time: a plan's programs priced by the profile and run by the engine.
namespace moeplan::engine {

// Where a rank's step time goes. The parts add up to the rank's step time: each op advances the rank's clock from the
// end of what was before, by waiting and by running. Seconds.
struct TimeParts {
  std::array<double, plan::kFamilies> family_s{};  // running, recompute not included; Family::communication stays 0
  double recompute_s = 0;
  double exposed_ep_s = 0, exposed_tp_s = 0, exposed_pp_s = 0, exposed_dp_s = 0,
         exposed_offload_s = 0;  // the device runs nothing else
  double imbalance_wait_s = 0;   // waiting at a collective of a group (EP, TP, DP) for slower members
  double bubble_s = 0;           // waiting for a neighbour stage, or at the end for the other stages
  double host_s = 0;             // the device waits for the host to issue
  double total() const;
  void add(const TimeParts& other, double weight);
};

struct RankTime {
  std::int64_t rank = 0;
  double finish_s = 0;
  double busy_s = 0;  // compute stream
  TimeParts parts;
};

struct StepTime {
  double step_s = 0;
  std::vector<RankTime> ranks;
  TimeParts mean;  // over ranks
  std::int64_t ops = 0;
};

class ExchangeFactors;
// By rows of ranks in lockstep where the plan allows it (lockstep.h), else op by op.
// `factors` (exchanges.h): exchanges take as much longer.
StepTime run_step(const plan::Plan& plan, const ExchangeFactors* factors = nullptr);
// Op by op, whatever the plan: the same answer.
StepTime run_step_by_ops(const plan::Plan& plan, const ExchangeFactors* factors = nullptr);

// When the host issued an op of a rank's program, and when the device ran it. Hand-overs between blocks, which the
// engine leaves out, are as the op before them.
struct OpClock {
  double issued_s = 0, start_s = 0, end_s = 0;
};
// [visit][op of the visit's list], of the whole step.
std::vector<std::vector<OpClock>> op_clocks(const plan::Plan& plan, std::int64_t rank);

}  // namespace moeplan::engine
