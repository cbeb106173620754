#include "report/peak_json.h"

#include <nlohmann/json.hpp>

namespace moeplan::report {
namespace {

using Json = nlohmann::ordered_json;

}  // namespace

nlohmann::ordered_json peak_place_json(const search::Evaluation& evaluation) {
  const memory::RankMemory& worst = evaluation.worst;
  const memory::Peak& peak = worst.peak;
  return {{"rank", worst.rank},
          {"pipeline_stage", worst.stage},
          {"phase", memory::phase_name(peak.phase)},
          {"op", peak.op.empty() ? Json() : Json(peak.op)},
          {"direction", peak.direction.empty() ? Json() : Json(peak.direction)},
          {"layer", peak.layer < 0 ? Json() : Json(peak.layer)},
          {"microbatch", peak.microbatch < 0 ? Json() : Json(peak.microbatch)},
          {"allocated_bytes", peak.allocated_bytes},
          {"reserved_bytes", worst.reserved_bytes},
          {"device_bytes", worst.device_bytes()},
          {"host_bytes", worst.host_bytes},
          {"usable_bytes", evaluation.fit.usable_bytes},
          {"capacity_bytes", evaluation.fit.capacity_bytes}};
}

}  // namespace moeplan::report
