#include <algorithm>

#include "base/check.h"
#include "schedule/slots.h"

namespace moeplan::schedule {

std::vector<Slot> one_forward_one_backward(std::int64_t stage, std::int64_t stages, std::int64_t microbatches,
                                           std::int64_t chunks) {
  check_arguments(stage, stages, microbatches, chunks);
  MOEPLAN_CHECK(chunks == 1, "this schedule does not interleave");
  // The first backward reaches this stage after the stages behind it have each taken one forward more.
  const std::int64_t warm_up = std::min(stages - stage - 1, microbatches);
  std::vector<Slot> slots;
  slots.reserve(static_cast<std::size_t>(2 * microbatches));
  for (std::int64_t i = 0; i < warm_up; ++i) slots.push_back({Direction::forward, i, 0});
  for (std::int64_t i = warm_up; i < microbatches; ++i) {
    slots.push_back({Direction::forward, i, 0});
    slots.push_back({Direction::backward, i - warm_up, 0});
  }
  for (std::int64_t i = microbatches - warm_up; i < microbatches; ++i) slots.push_back({Direction::backward, i, 0});
  return slots;
}

}  // namespace moeplan::schedule
