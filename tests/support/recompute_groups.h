#pragma once
#include <memory>
#include <string>

#include "support/scenarios.h"

namespace moeplan::test {

// tiny-dense with `layers` layers on 4 GPUs, 256 tokens a rank.
inline std::shared_ptr<const scenario::Scenario> dense(int layers, const std::string& memory, int microbatches = 1,
                                                       const std::string& schedule = "gpipe") {
  return scenario_from(
      "model: { name: d, source: made for tests, hidden_size: 64, vocab_size: 1000, ffn_hidden_size: 128, attention: { "
      "kind: gqa, num_attention_heads: 4, num_query_groups: 2, kv_channels: 16 }, layers: [ { kind: dense, count: " +
      std::to_string(layers) + " } ] }\ncluster: { hardware: h100-sxm, gpus: 4 }\ntraining: { mbs: 1, seq: 256, gbs: " +
      std::to_string(4 * microbatches) + ", schedule: " + schedule + " }\nmemory: " + memory + "\n");
}

// Everything recomputed, so many layers together.
inline std::string full(int layers) {
  return "{ recompute_granularity: full, recompute_method: uniform, recompute_num_layers: " + std::to_string(layers) +
         " }";
}

}  // namespace moeplan::test
