#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "policy/decision.h"

namespace moeplan::policy {

struct MemfineSettings {
  enum class Rule { fixed, adaptive };
  Rule rule = Rule::adaptive;
  std::int64_t chunks = 1;                        // fixed
  std::vector<std::int64_t> bins = {1, 2, 4, 8};  // adaptive, ascending
  double alpha = 0.9;                             // usable fraction that the adaptive rule plans with
  double planning_capacity_bytes = 0;             // 0: the profile's capacity
  double bytes_per_row = 0;                       // 0: the closed form's
  enum class Recompute { moe, layer };
  Recompute recompute = Recompute::moe;
  bool pipelined = false;  // rows of the next chunk travel while the experts compute on this one's
};

// c* = ceil(rows / max_rows), then the smallest bin >= c*; the largest bin when none is (and when max_rows is 0).
std::int64_t adaptive_chunks(double rows, double max_rows, std::span<const std::int64_t> bins);

// Token chunks with chunked recomputation (FCDA), one count for the whole group. max_rows: s'_max of the pipeline stage
// that holds the layer. A chunk count above the tokens of a source is lowered to it. Sets chunks, forward_rows,
// backward = recompute, layer_notify.
std::unique_ptr<Policy> make_memfine(const MemfineSettings& settings, double max_rows);

}  // namespace moeplan::policy
