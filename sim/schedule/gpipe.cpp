#include "base/check.h"
#include "schedule/slots.h"

namespace moeplan::schedule {

std::vector<Slot> gpipe(std::int64_t stage, std::int64_t stages, std::int64_t microbatches, std::int64_t chunks) {
  check_arguments(stage, stages, microbatches, chunks);
  MOEPLAN_CHECK(chunks == 1, "this schedule does not interleave");
  std::vector<Slot> slots;
  slots.reserve(static_cast<std::size_t>(2 * microbatches));
  for (std::int64_t i = 0; i < microbatches; ++i) slots.push_back({Direction::forward, i, 0});
  for (std::int64_t i = 0; i < microbatches; ++i) slots.push_back({Direction::backward, i, 0});
  return slots;
}

}  // namespace moeplan::schedule
