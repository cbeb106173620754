#include <algorithm>

#include "base/check.h"
#include "schedule/slots.h"

namespace moeplan::schedule {

std::vector<Slot> interleaved(std::int64_t stage, std::int64_t stages, std::int64_t microbatches, std::int64_t chunks) {
  check_arguments(stage, stages, microbatches, chunks);
  MOEPLAN_CHECK(microbatches % stages == 0, "interleaving takes microbatches in groups of the stages");
  const std::int64_t total = microbatches * chunks, group = stages * chunks;
  // The k-th virtual microbatch of a rank: groups of `stages` microbatches run through chunk 0, then 1, and so on;
  // backward from the last chunk.
  const auto at = [&](std::int64_t k, Direction direction) {
    const std::int64_t chunk = k % group / stages;
    return Slot{direction, k / group * stages + k % stages,
                direction == Direction::forward ? chunk : chunks - 1 - chunk};
  };
  const std::int64_t warm_up = std::min((stages - stage - 1) * 2 + (chunks - 1) * stages, total);
  std::vector<Slot> slots;
  slots.reserve(static_cast<std::size_t>(2 * total));
  for (std::int64_t k = 0; k < warm_up; ++k) slots.push_back(at(k, Direction::forward));
  for (std::int64_t k = warm_up; k < total; ++k) {
    slots.push_back(at(k, Direction::forward));
    slots.push_back(at(k - warm_up, Direction::backward));
  }
  for (std::int64_t k = total - warm_up; k < total; ++k) slots.push_back(at(k, Direction::backward));
  return slots;
}

}  // namespace moeplan::schedule
