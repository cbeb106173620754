#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "config/reader.h"
#include "model/architecture.h"

// Which layers of a model are dense and which are MoE, in the two forms that a model file may use.
namespace moeplan::model {

inline constexpr std::int64_t kMaxLayers = 4096;

struct FrequencyPattern {
  std::vector<int> values;  // 0 dense, 1 MoE; empty when `error` is not
  std::string error;        // what is wrong with the text; empty when nothing is
};

// Megatron's string form of --moe-layer-freq, an expression of lists of 0 and 1: "([0]*3+[1]*58)", "([0,1]*2+[1])*4".
// At most kMaxLayers values. `meaning` is what errors call the two values.
FrequencyPattern parse_frequency_pattern(std::string_view text, std::string_view meaning = "0 (dense) or 1 (MoE)");

// Reads `layers` (a list of { kind: dense|moe, count: N }), or `num_layers` with `moe_layer_freq` in Megatron's sense:
// an integer N (layer i is MoE when i % N == 0), a list of 0 and 1 a layer, or the string form. Without moe_layer_freq
// every layer is MoE when the file has a `moe` mapping, else dense. `num_layers` beside `layers` must be their sum.
// Kinds that this version does not know (linear attention, state space, sparse attention) are refused by name.
// Empty when faults were added.
std::vector<LayerKind> read_layers(config::Reader& root);

}  // namespace moeplan::model
