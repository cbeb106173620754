#pragma once
#include "config/reader.h"
#include "topology/hardware.h"

// Rules between keys of a profile; each broken one is a fault at the key. The keys themselves were read without fault.
namespace moeplan::topology {

// Domains and leaves are made of whole nodes; a blocking or rail fabric says how many GPUs share a leaf.
void check_network(const HardwareProfile::Network& network, config::Reader& section);
// All keys of the dispatch kernels, or none.
void check_dispatch(const HardwareProfile& profile, config::Reader& section);
// An achieved peak of a precision has the datasheet's beside it (the denominator of MFU).
void check_peaks(const HardwareProfile& profile, config::Reader& gemm);

}  // namespace moeplan::topology
