#pragma once
#include <cstdint>
#include <span>

#include "base/error.h"
#include "routing/formats.h"

namespace moeplan::routing {

// The number of experts a token that the lines of all layers agree on: the largest k in 1..16 that divides every line
// and gives distinct ids in every token. A k that nearly everything agrees on (19 of 20 lines, 999 of 1,000 tokens and
// at least 1,000 tokens) is taken too: then the rest is damage, which esft_top_k_faults names, and not a smaller k.
std::int64_t infer_esft_top_k(std::span<const EsftLayer> layers);

// Lines that are no multiple of k and tokens that name an expert twice, at most kMostFaults.
void add_esft_top_k_faults(std::span<const EsftLayer> layers, std::int64_t top_k, base::Faults& faults);

}  // namespace moeplan::routing
