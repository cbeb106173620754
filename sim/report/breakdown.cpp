#include "report/breakdown.h"

#include <algorithm>
#include <cmath>

namespace moeplan::report {

plan::BytesByKind static_by_kind(const search::Evaluation& evaluation) {
  plan::BytesByKind bytes{};
  for (const memory::AliveTensor& tensor : evaluation.alive) {
    if (tensor.name == plan::tensor_kind_name(tensor.kind))
      bytes[static_cast<std::size_t>(tensor.kind)] += tensor.bytes;
  }
  return bytes;
}

std::vector<TimePart> time_parts(const engine::TimeParts& parts) {
  const auto family = [&](plan::Family which) { return parts.family_s[static_cast<std::size_t>(which)]; };
  return {
      {"attention", family(plan::Family::attention)},
      {"experts", family(plan::Family::expert)},
      {"dense", family(plan::Family::dense)},
      {"router and permute", family(plan::Family::router_permute)},
      {"loss", family(plan::Family::loss)},
      {"optimizer", family(plan::Family::optimizer)},
      {"recompute", parts.recompute_s},
      {"exposed expert-parallel", parts.exposed_ep_s},
      {"exposed tensor-parallel", parts.exposed_tp_s},
      {"exposed pipeline", parts.exposed_pp_s},
      {"exposed data-parallel", parts.exposed_dp_s},
      {"exposed offload", parts.exposed_offload_s},
      {"imbalance wait", parts.imbalance_wait_s},
      {"bubble", parts.bubble_s},
      {"host", parts.host_s},
  };
}

WholeRun whole_run(const search::Evaluation& evaluation) {
  const scenario::Training& training = evaluation.scenario->training;
  WholeRun run;
  if (!(training.total_tokens > 0.0)) return run;
  run.total_tokens = training.total_tokens;
  run.steps = std::ceil(training.total_tokens / static_cast<double>(evaluation.routing.tokens));
  const double seconds = run.steps * evaluation.step_s;
  run.days = seconds / 86400.0;
  run.gpu_hours = seconds / 3600.0 * static_cast<double>(evaluation.scenario->layout.world);
  return run;
}

double closed_form_gap(const search::Evaluation& evaluation) {
  const auto replay = static_cast<double>(evaluation.replay_activation_bytes);
  return replay > 0.0 ? evaluation.closed_form_activation_bytes / replay - 1.0 : 0.0;
}

std::int64_t whole_bytes(double bytes) { return static_cast<std::int64_t>(std::llround(bytes)); }

std::int64_t routed_peak_bytes(const search::Evaluation& evaluation) {
  std::int64_t largest = 0;
  for (const memory::RankMemory& rank : evaluation.ranks) largest = std::max(largest, rank.routed_peak_bytes);
  return largest;
}

std::string layers_text(const search::StageSummary& stage) {
  std::string text;
  for (const auto& [first, last] : stage.layer_ranges) {
    if (!text.empty()) text += ", ";
    text += std::to_string(first);
    if (last != first) text += "-" + std::to_string(last);
  }
  return text.empty() ? "none" : text;
}

}  // namespace moeplan::report
