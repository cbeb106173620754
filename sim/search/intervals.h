#pragma once
#include "search/validate.h"

namespace moeplan::search {

// Fills the intervals of a validation from its rows, one a group as in the summaries.
void add_intervals(Validation& validation);

}  // namespace moeplan::search
