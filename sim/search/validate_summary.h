#pragma once
#include "search/validate.h"

namespace moeplan::search {

// Counts the rows by status and fills the summaries.
void add_summaries(Validation& validation);

}  // namespace moeplan::search
