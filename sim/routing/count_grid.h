#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "base/error.h"
#include "routing/trace.h"

// The order behind the rows of a count trace: every step has all layers, and each of them the same microbatches and
// sources. Without that, "microbatch m" would mean different data in different layers.
namespace moeplan::routing {

// Rows by (step, layer, microbatch, source), ascending.
std::vector<std::size_t> sorted_rows(const CountTrace& trace);

// Faults: two rows for one place, a row that the grid lacks. At most `most` in all of `faults`.
void add_grid_faults(const CountTrace& trace, std::size_t most, base::Faults& faults);

// One step of a trace without grid faults: row of (layer, microbatch, source) =
// first + (layer * microbatches + microbatch) * sources + source, in the order of sorted_rows.
struct CountStep {
  std::size_t first = 0, microbatches = 0, sources = 0;
};
struct CountGrid {
  std::vector<std::int64_t> layers;
  std::vector<CountStep> steps;
};
CountGrid grid_of(const CountTrace& trace, const std::vector<std::size_t>& rows);

}  // namespace moeplan::routing
