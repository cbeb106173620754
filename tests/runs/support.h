#pragma once
#include <map>
#include <string>

#include "runs/run_scenario.h"
#include "runs/run_table.h"
#include "support/holds.h"

namespace moeplan::runs::testing {

// A row that can be simulated, with some cells changed or added.
inline Run row(std::map<std::string, std::string> changes = {}) {
  std::map<std::string, std::string> cells = {{"id", "R1"},
                                              {"model", "qwen3-30b-a3b"},
                                              {"gpu", "h100-sxm"},
                                              {"gpus", "16"},
                                              {"tp", "1"},
                                              {"pp", "1"},
                                              {"vpp", "1"},
                                              {"cp", "1"},
                                              {"ep", "16"},
                                              {"etp", "1"},
                                              {"mbs", "1"},
                                              {"gbs", "64"},
                                              {"seq_len", "4096"},
                                              {"precision", "bf16"},
                                              {"recompute", "none"},
                                              {"optimizer", "adam"},
                                              {"sharding", "zero1"},
                                              {"dispatcher", "alltoall"},
                                              {"routing", "balanced"},
                                              {"framework", "megatron"}};
  for (auto& [column, text] : changes) cells[column] = text;
  std::string head, line;
  for (const auto& [column, text] : cells) {
    head += (head.empty() ? "" : ",") + column;
    std::string doubled;
    for (const char c : text) doubled += c == '"' ? std::string("\"\"") : std::string(1, c);
    line += (line.empty() ? "\"" : ",\"") + doubled + "\"";
  }
  return parse_runs(head + "\n" + line + "\n", "runs.csv").runs.front();
}

inline ResolvedRun resolved(const std::map<std::string, std::string>& changes = {}) {
  return resolve_run(row(changes), {});
}

using moeplan::test::holds;

}  // namespace moeplan::runs::testing
