#pragma once
#include <string>
#include <utility>
#include <vector>

#include "scenario/scenario.h"

namespace moeplan::search {

// One way to recompute, as overrides of a scenario.
struct Recomputation {
  std::string name;
  std::vector<std::pair<std::string, std::string>> overrides;
};

// What a run of that model and framework may have recomputed, the cheapest in time first: norms and the experts'
// activation, with latent attention's up-projections too, every layer.
std::vector<Recomputation> recomputations(const scenario::Scenario& scenario);

}  // namespace moeplan::search
