#include <algorithm>

#include "base/check.h"
#include "schedule/slots.h"

namespace moeplan::schedule {

std::vector<Slot> zb_h1(std::int64_t stage, std::int64_t stages, std::int64_t microbatches, std::int64_t chunks) {
  check_arguments(stage, stages, microbatches, chunks);
  MOEPLAN_CHECK(chunks == 1, "this schedule does not interleave");
  const std::int64_t warm_up = std::min(stages - stage - 1, microbatches);
  std::vector<Slot> slots;
  slots.reserve(static_cast<std::size_t>(3 * microbatches));
  std::int64_t backwards = 0, weights = 0;
  const auto backward = [&] {
    slots.push_back({Direction::backward, backwards++, 0, false, true});
    // A later rank starts later, and has the difference to 1F1B's memory to spare: its weights lag by as much.
    if (backwards - weights > stage) slots.push_back({Direction::weights, weights++, 0});
  };
  for (std::int64_t i = 0; i < warm_up; ++i) slots.push_back({Direction::forward, i, 0});
  for (std::int64_t i = warm_up; i < microbatches; ++i) {
    slots.push_back({Direction::forward, i, 0});
    backward();
  }
  while (backwards < microbatches) backward();
  while (weights < microbatches) slots.push_back({Direction::weights, weights++, 0});
  return slots;
}

}  // namespace moeplan::schedule
