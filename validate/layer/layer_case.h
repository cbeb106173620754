#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "layer/spread.h"

// What one run of a layer is: plain C++17, for the device program and for tests on the host.
namespace moeplan::layer {

struct LayerShape {
  std::int64_t tokens = 0, hidden = 0, ffn = 0;  // hidden and ffn: multiples of 8
  int experts = 0, top_k = 0;                    // of this GPU, which holds all that its tokens choose
  std::int64_t pairs() const { return tokens * top_k; }
};

// What backward does with the routed part: kept: forward kept all it reads; recompute: forward of a chunk runs again,
// then its backward (MemFine); redispatch: of the retained pairs alone, from input and output gradient (LRMoE).
enum class Backward { kept, recompute, redispatch };
const char* backward_name(Backward backward);

struct LayerCase {
  LayerShape shape;
  std::int64_t chunks = 1;  // divides the tokens; 1 under redispatch
  Backward backward = Backward::kept;
  double retention = 1;            // redispatch: share of the pairs, of each expert alike
  std::string distribution;        // where the counts come from, as it is told in the results
  std::vector<std::int64_t> rows;  // pairs of each expert: sum tokens * top_k, none above tokens
};

// Everything that is wrong with a case, one sentence each, with what was expected and found.
std::vector<std::string> faults_of(const LayerCase& layer_case);

// Pairs that are kept of each expert: the share `retention` of its rows, rounded up.
std::vector<std::int64_t> retained_rows(const LayerCase& layer_case);

// `weights` (>= 0, one positive) scaled to counts whose sum is tokens * top_k, none above tokens: what an expert cannot
// take goes to the others in proportion. Largest remainders round.
std::vector<std::int64_t> scaled_rows(const std::vector<double>& weights, const LayerShape& shape);

// [tokens, top_k]: experts of each token's pairs, all different, such that expert e has rows[e] pairs. The tokens are
// shuffled by `seed`, so that chunks of them look alike.
std::vector<std::int32_t> choices_of(const LayerShape& shape, const std::vector<std::int64_t>& rows,
                                     std::uint64_t seed);
// Rows of each expert in each chunk: [chunks * experts].
std::vector<std::int64_t> chunk_rows(const LayerCase& layer_case, const std::vector<std::int32_t>& choices);

}  // namespace moeplan::layer
