#pragma once
#include <cstdint>

#include "scenario/scenario.h"

namespace moeplan::plan {

// Sizes that every block of a scenario shares: tokens and sharded widths on one rank.
struct Shape {
  std::int64_t tokens = 0;        // of one microbatch in a tensor-parallel group: mbs * seq
  std::int64_t tokens_local = 0;  // of one rank with sequence parallelism: tokens / tp
  std::int64_t tp = 1, cp = 1, ep = 1, etp = 1;
  std::int64_t gates = 2;  // first matrices of an MLP: gate and up (SwiGLU), or one (GELU)
  std::int64_t hidden = 0;
  std::int64_t vocab_rank = 0;  // padded to a multiple of 128 tp, divided by tp
  std::int64_t heads_rank = 0, kv_heads_rank = 0;
  std::int64_t local_experts = 0;
  static constexpr std::int64_t kElement = 2;  // bf16
};
Shape make_shape(const scenario::Scenario& scenario);

// Tokens a received row, in the mean: the distinct members of an expert group that a token's experts live on, over
// top_k. 1 for a dense model.
double distinct_share(const scenario::Scenario& scenario);

}  // namespace moeplan::plan
