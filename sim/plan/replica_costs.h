#pragma once
#include "policy/lrmoe.h"
#include "scenario/scenario.h"

namespace moeplan::plan {

// What one more instance of an expert costs on a rank of the stage, for LRMoE's placement: device seconds of a row in
// grouped GEMMs of many rows, bytes of weights and main gradients, bytes/s between the first and the last member of an
// EP group, and rows whose memory an instance takes. Without replication: all zero.
policy::ReplicaCosts replica_costs(const scenario::Scenario& scenario, std::int64_t stage);

}  // namespace moeplan::plan
