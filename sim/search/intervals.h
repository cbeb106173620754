#pragma once
#include <string>

#include "search/validate.h"

namespace moeplan::search {

// Whether a group of runs is of the half that tells what runs are off; else it judges.
bool tells_form(const std::string& group);
// Fills the intervals of a validation from its rows, one a group as in the summaries.
void add_intervals(Validation& validation);

}  // namespace moeplan::search
