#pragma once
#include <cstdint>
#include <vector>

#include "memory/reserved.h"

// Memory of one rank over time: every allocation and release in program order, from loading over the first iteration
// and its optimizer step to the end of a second, steady one.
namespace moeplan::memory {

struct Timeline {
  Reserved reserved;                // of the same replay
  std::vector<MemoryEvent> events;  // in program order
};
// `iterations`: 2 or more; the last ones are equal.
Timeline timeline_of(const plan::Plan& plan, std::int64_t rank, std::int64_t iterations = 2);

}  // namespace moeplan::memory
