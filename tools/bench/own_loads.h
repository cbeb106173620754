#pragma once
#include <cstdint>
#include <string>

namespace moeplan::bench {

// Writes counts of one step in which every replica has its own loads in every microbatch and layer, as a .npy array
// [1, microbatches, replicas, layers, experts] (docs/traces.md): shares of experts vary by a factor of up to four.
// Bytes are the same on every machine.
void write_own_loads(const std::string& path, std::int64_t microbatches, std::int64_t replicas, std::int64_t layers,
                     std::int64_t experts, std::int64_t rows_of_replica);

}  // namespace moeplan::bench
