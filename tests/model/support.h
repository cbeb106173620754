#pragma once
#include <string>

#include "base/error.h"
#include "config/document.h"
#include "model/architecture.h"

// What the tests of this folder share: models of the repository, and faults of a text as one string.
namespace moeplan::model::test {

inline Architecture load(const std::string& name) {
  const std::string path = std::string(MOEPLAN_SOURCE_DIR) + "/models/" + name + ".yaml";
  base::Faults faults;
  const Architecture arch = read_architecture(config::load_yaml(path), name, faults);
  faults.throw_if_any();
  return arch;
}

inline Architecture read(const std::string& text) {
  base::Faults faults;
  const Architecture arch = read_architecture(config::parse_yaml(text, "m.yaml"), "m", faults);
  faults.throw_if_any();
  return arch;
}

// All faults as the user sees them; "" when there are none.
inline std::string faults_of(const std::string& text) {
  try {
    read(text);
  } catch (const base::Error& error) {
    return error.what();
  }
  return "";
}

// `text` with its one occurrence of `from` replaced.
inline std::string edit(std::string text, const std::string& from, const std::string& to) {
  const std::size_t at = text.find(from);
  if (at == std::string::npos || text.find(from, at + 1) != std::string::npos) return "edit: not found once: " + from;
  return text.replace(at, from.size(), to);
}

// A small good file: line numbers in the tests count from its first line.
inline const char* const kGqaText =
    "source: hand\n"                   // 1
    "hidden_size: 8\n"                 // 2
    "vocab_size: 10\n"                 // 3
    "ffn_hidden_size: 16\n"            // 4
    "attention:\n"                     // 5
    "  kind: gqa\n"                    // 6
    "  num_attention_heads: 4\n"       // 7
    "  num_query_groups: 2\n"          // 8
    "  kv_channels: 6\n"               // 9
    "moe:\n"                           // 10
    "  num_experts: 5\n"               // 11
    "  moe_router_topk: 2\n"           // 12
    "  moe_ffn_hidden_size: 3\n"       // 13
    "layers:\n"                        // 14
    "  - { kind: dense, count: 1 }\n"  // 15
    "  - { kind: moe, count: 2 }\n";   // 16

inline const char* const kMlaText =
    "source: hand\n"                              // 1
    "hidden_size: 8\n"                            // 2
    "vocab_size: 10\n"                            // 3
    "attention:\n"                                // 4
    "  kind: mla\n"                               // 5
    "  num_attention_heads: 4\n"                  // 6
    "  q_lora_rank: 5\n"                          // 7
    "  kv_lora_rank: 3\n"                         // 8
    "  qk_head_dim: 6\n"                          // 9
    "  qk_pos_emb_head_dim: 2\n"                  // 10
    "  v_head_dim: 7\n"                           // 11
    "moe:\n"                                      // 12
    "  num_experts: 5\n"                          // 13
    "  moe_router_topk: 2\n"                      // 14
    "  moe_ffn_hidden_size: 3\n"                  // 15
    "  moe_shared_expert_intermediate_size: 4\n"  // 16
    "  moe_shared_expert_gate: true\n"            // 17
    "num_layers: 2\n";                            // 18

}  // namespace moeplan::model::test
