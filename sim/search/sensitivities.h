#pragma once
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "plan/plan.h"
#include "topology/hardware.h"

// What a step's time owes to each value of the hardware profile.
namespace moeplan::search {

// Seconds of the plan's iteration under a changed profile: it is priced and run again, with the same rows on the same
// ranks. `change` may alter rates, latencies and scales, not sizes.
double step_under(const plan::Plan& plan, const std::function<void(topology::HardwareProfile&)>& change);

struct Sensitivity {
  std::string key;   // "network.nic_bandwidth"
  double value = 0;  // in base units
  // (step with 1.01 times the value / step - 1), in percent: -0.4 for a rate that binds 40 % of the time.
  double step_change_per_percent = 0;
  bool peak_unaffected = true;  // false where a policy weighs times when it places experts
};
// Each rate, latency, efficiency and length of the profile that a cost model reads, the largest change first, those
// that change nothing last. Sizes, counts, exponents and what the datasheet says stay out. The step is run again for
// each, on `threads` threads (<= 0: all of the machine); the result does not depend on their number.
std::vector<Sensitivity> sensitivities(const plan::Plan& plan, int threads);

}  // namespace moeplan::search
