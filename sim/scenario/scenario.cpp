#include "scenario/scenario.h"

#include <cmath>

namespace moeplan::scenario {

std::int64_t Scenario::capacity_bytes() const { return std::llround(hardware.device.memory_capacity.value); }

std::int64_t Scenario::usable_bytes() const {
  return static_cast<std::int64_t>(std::floor(static_cast<double>(capacity_bytes()) * memory.usable_fraction));
}

}  // namespace moeplan::scenario
