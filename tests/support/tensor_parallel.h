#pragma once
#include <memory>
#include <string>

#include "support/scenarios.h"

namespace moeplan::test {

// Llama 3 8B on one stage: hidden 4096, products of qkv 4096 -> (4096 + 2 * 1024) / tp, no experts.
inline std::shared_ptr<scenario::Scenario> tensor_parallel(int tp, bool overlap,
                                                           const std::string& hardware = "h100-sxm") {
  return std::make_shared<scenario::Scenario>(*scenario_from(
      "model: llama3-8b\ncluster: { hardware: " + hardware + ", gpus: 8 }\nparallel: { tp: " + std::to_string(tp) +
      " }\ntraining: { micro_batch_size: 1, global_batch_size: 8, seq_length: 4096, tp_comm_overlap: " +
      (overlap ? "true" : "false") + " }\n"));
}

}  // namespace moeplan::test
