#include "search/recomputations.h"

namespace moeplan::search {

std::vector<Recomputation> recomputations(const scenario::Scenario& scenario) {
  std::vector<Recomputation> result;
  const auto selective = [&](const std::string& modules) {
    result.push_back(
        {modules, {{"memory.recompute_granularity", "selective"}, {"memory.recompute_modules", "[" + modules + "]"}}});
  };
  const bool mla = scenario.model.attention.kind == model::AttentionKind::mla;
  if (scenario.training.framework == scenario::Framework::megatron) {
    selective(scenario.model.moe_layer_count() > 0 ? "layernorm, moe_act" : "layernorm");
    if (mla) selective("layernorm, moe_act, mla_up_proj");
  }
  result.push_back({"every layer", {{"memory.recompute_granularity", "full"}}});
  return result;
}

}  // namespace moeplan::search
