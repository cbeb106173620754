#pragma once
#include <string>
#include <vector>

#include "runs/run_table.h"

namespace moeplan::runs {

// Every column that a run is read from.
std::vector<std::string> column_names();

// Fills the fields of `run` from its cells. A cell that cannot be read becomes one of its faults and counts as empty.
void read_cells(Run& run);

}  // namespace moeplan::runs
