#pragma once
#include "base/error.h"
#include "scenario/raw.h"
#include "scenario/scenario.h"

// Bounds that keep counts exact and work finite, checked before any work starts.
namespace moeplan::scenario {

// Sizes that the integers of this program cannot hold: tokens of a microbatch (of one replica and of all), copies that
// one rank may receive, experts, experts a token, bytes of one rank.
void check_sizes(const Scenario& scenario, const Places& places, base::Faults& faults);

// Operations that one run computes: ranks x layers of a stage x microbatches x iterations x (12 + 12 x chunks) for
// forward and backward, and for LRMoE one sixteenth of the copies whose scores it compares.
double estimated_operations(const Scenario& scenario);

// Refuses more than 2e8 x limit operations, with the estimate and the --limit that allows it.
void check_work(const Scenario& scenario, double limit, const Places& places, base::Faults& faults);

}  // namespace moeplan::scenario
