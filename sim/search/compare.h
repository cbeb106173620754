#pragma once
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "search/evaluate.h"

namespace moeplan::search {

struct PolicyResult {
  std::string name;
  Evaluation evaluation;
};
// Evaluates the scenario under each set of policies ("none", "memfine+lrmoe", ...); the first is the baseline. All
// unknown names are reported at once, at `where`.
std::vector<PolicyResult> compare_policies(const scenario::Scenario& scenario, const std::vector<std::string>& names,
                                           const base::Where& where, int threads = 0);

}  // namespace moeplan::search
