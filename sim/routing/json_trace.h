#pragma once
#include <nlohmann/json_fwd.hpp>

#include "routing/trace.h"

// Traces that are one JSON document. For .cpp files.
namespace moeplan::routing {

// {"layers": [0, 7, 15], "models": {NAME: {"num_experts":, "topk":, "counts": {DOMAIN: [[counts of a layer], ...]}}}}:
// tokens per expert of OLMoE-1B-7B and Mixtral by domain of text (allenai/OLMoE, routing_output), as JSON. The part
// MODEL/DOMAIN selects one; without it, or with another, the error lists them.
CountTrace olmoe_counts(const nlohmann::json& document, const TracePath& path);

// {"router_data": [{"token_150": {"layer_0": {"selected_experts": [..], "selected_probs": [..]}, ..}}, ..]}: routing of
// the tokens that gpt-oss decoded for one sample. Tokens are numbered one by one from any number; the sample is a line.
TokenTrace gptoss_sample(const nlohmann::json& document, const TracePath& path);

}  // namespace moeplan::routing
