#pragma once
#include <cstdint>
#include <optional>
#include <vector>

#include "engine/picoseconds.h"
#include "plan/plan.h"

namespace moeplan::engine {

// What a step comes to on each rank that stands for others (plan.fold), in their order.
struct StandingTimes {
  std::vector<std::int64_t> finish_ps;  // end of the last op, host included
  std::vector<std::int64_t> clock_ps;   // end of the last op that a next one would wait for
  std::vector<PartsPs> parts;
  std::int64_t makespan_ps = 0;
  std::int64_t ops = 0;
};

// The step of a plan whose programs are chains (step_template.h), by rows: the ranks that share a program go through it
// together, a piece at a time, in contiguous arrays. The same times as run_max_plus (a test). None where a plan is not
// of that kind.
class ExchangeFactors;
std::optional<StandingTimes> run_lockstep(const plan::Plan& plan, const ExchangeFactors* factors = nullptr);

}  // namespace moeplan::engine
