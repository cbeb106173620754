#pragma once
#include "config/reader.h"
#include "model/architecture.h"

namespace moeplan::model {

// Reads the mapping `attention`. `arch.layers` and `arch.linear_bias` must be read already; fills `arch.windows`, one
// entry a layer (all 0 without `window_size`). Faults go to the reader's collector.
Attention read_attention(config::Reader reader, Architecture& arch);

}  // namespace moeplan::model
