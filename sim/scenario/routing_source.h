#pragma once
#include <memory>
#include <string>

#include "base/error.h"
#include "model/architecture.h"
#include "routing/loads.h"
#include "scenario/raw.h"
#include "scenario/resolve.h"
#include "scenario/scenario.h"

namespace moeplan::scenario {

// The trace that the scenario names, read and compared with the model; null when it names none or faults were added.
// Faults carry the place of the trace in the scenario and, for a disagreement, the place in the model file.
std::shared_ptr<const routing::Trace> read_scenario_trace(const Raw& raw, const model::Architecture& arch,
                                                          const std::string& base_dir, TraceCache& cache,
                                                          base::Faults& faults);

// Fills loads, routing_label and seed. A model without MoE layers gets loads that nothing asks for, labelled "none".
void set_loads(Scenario& scenario, const RawRouting& stated, const std::shared_ptr<const routing::Trace>& trace);

}  // namespace moeplan::scenario
