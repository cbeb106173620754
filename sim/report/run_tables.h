#pragma once
#include <string>

#include "search/evaluate.h"

// The tables under the verdict of `moeplan run`, each with its heading line and a line break at its end.
namespace moeplan::report {

std::string stages_table(const search::Evaluation& evaluation);
// Every rank up to 16 of them; else the 8 with the most device memory and the one with the least.
std::string ranks_table(const search::Evaluation& evaluation);
std::string breakdown_table(const search::Evaluation& evaluation);      // of the worst rank: static and at its peak
std::string alive_table(const search::Evaluation& evaluation);          // tensors of the worst rank, the 10 largest
std::string time_table(const search::Evaluation& evaluation);           // mean over ranks; parts of 0 s are left out
std::string sensitivities_table(const search::Evaluation& evaluation);  // "" where they were not asked for
std::string routing_table(const search::Evaluation& evaluation);        // "" without MoE layers
std::string iterations_table(const search::Evaluation& evaluation);     // "" for one iteration

}  // namespace moeplan::report
