#pragma once
#include <optional>
#include <string>
#include <string_view>

#include "routing/npy.h"
#include "routing/trace.h"

// What the arrays of .npy and .npz files mean.
namespace moeplan::routing {

inline constexpr std::string_view kChoices = "routed_experts";
inline constexpr std::string_view kCounts = "counts";
inline constexpr std::string_view kExpertCounts = "expert_counts";

// The arrays that may stand beside the main one.
struct SideArrays {
  std::optional<NpyArray> layer_ids;    // [layers]: global layer of each, ascending
  std::optional<NpyArray> weights;      // of choices, the same shape: router weights
  std::optional<NpyArray> line_tokens;  // of choices, [lines]: tokens of each sequence
  std::optional<NpyArray> experts;      // of choices, one value: how many experts there are
  std::optional<NpyArray> missing;      // of choices, one value: the id that stands for "no route"
};

// choices: integers [tokens, layers, k], k in 1..64. Refused: an id below 0 or not below `experts`, a token that names
// an expert twice. With `missing`, a token whose k ids in some layer are all that value is left out of all layers.
// Without layer_ids, layer i is the i-th, and (k >= 2) a layer of nothing but zeros is a dense layer and no part of the
// trace. Faults name the place as "routed_experts[token, layer]".
TokenTrace trace_of_choices(const NpyArray& choices, const SideArrays& side, const std::string& file);

// counts: whole numbers [layers, experts], [steps, layers, experts], [steps, microbatches, layers, experts] or
// [steps, microbatches, sources, layers, experts]. Steps, microbatches and sources are numbered from 0. A step of
// nothing but zeros is left out (nothing ran), and so, without layer_ids, is a layer (it is dense).
CountTrace trace_of_counts(const NpyArray& counts, const SideArrays& side, const std::string& file);

// Layer ids of `extent` layers: those stated, else 0, 1, ...
std::vector<std::int64_t> layer_ids_of(const SideArrays& side, std::int64_t extent, const std::string& file);

}  // namespace moeplan::routing
