#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "base/error.h"
#include "config/document.h"

// One file under hw_profiles/: a GPU, its host and its network, each value with evidence and source.
namespace moeplan::topology {

enum class Evidence { measured, published, datasheet, assumed };  // from strongest to weakest
std::string evidence_name(Evidence evidence);

struct Value {
  double value = 0;  // in base units (bytes, bytes/s, seconds, FLOP/s) or a plain number
  Evidence evidence = Evidence::assumed;
  std::string source;
};

struct HardwareProfile {
  std::string id, title;
  std::vector<std::string> aliases;  // names that logs and tables use for the same part

  struct Device {
    Value memory_capacity;   // bytes that the driver shows
    Value sm_count;          // multiprocessors (AI cores on Ascend)
    Value peak_bf16;         // dense FLOP/s of the datasheet: the denominator of MFU
    Value memory_bandwidth;  // datasheet, bytes/s
  } device;

  // t = launch + (compute^q + memory^q)^(1/q); compute counts 2mn(k + k_pad) on whole tiles (docs/models.md, Dense
  // GEMM).
  struct Gemm {
    Value launch, bandwidth, peak, k_pad, overlap_exponent;
    Value dgrad_efficiency, wgrad_efficiency;  // rate relative to the forward layout
  } gemm;

  // Grouped GEMM on a vector of rows: rows of each expert padded to whole tiles; weight bytes are a floor.
  struct GroupedGemm {
    Value tile_rows;       // rows of one tile
    Value efficiency;      // rate relative to the dense GEMM's peak
    Value group_overhead;  // seconds per non-empty expert
  } grouped_gemm;

  // Causal FLOPs halved; rate = peak * s / (s + half_length).
  struct Attention {
    Value peak_hd128, half_length_hd128, peak_hd64, half_length_hd64;
    Value backward_rate;  // backward rate relative to forward (backward does 2.5 times the FLOPs)
  } attention;

  struct MemoryBound {
    Value floor;               // seconds of the smallest kernel
    Value bandwidth;           // achieved by streaming kernels, bytes/s
    Value permute_efficiency;  // of that bandwidth, for row gather and scatter
    Value loss_efficiency;     // for softmax cross-entropy
  } memory_bound;

  struct Host {
    Value launch;  // host seconds to issue one operation
    Value sync;    // host seconds of one device-to-host wait beyond the device's own time
  } host;

  struct Network {
    Value gpus_per_node;
    Value scale_up_bandwidth, scale_up_efficiency, scale_up_latency;  // per GPU and direction
    Value nics_per_node, nic_bandwidth, nic_efficiency, nic_latency;  // per NIC and direction
    Value message_half_size;      // bytes of one peer message at which half the rate is reached
    Value collective_efficiency;  // of scale_up_bandwidth, for ring collectives inside a node (they stream better than
                                  // all-to-all)
    Value collective_exponent;    // p of t = (alpha^p + (x/B)^p)^(1/p)
  } network;

  struct Overheads {
    Value context;       // device bytes outside the allocator: context and loaded kernels
    Value communicator;  // device bytes outside the allocator, per communicator that a rank takes part in
    Value workspace;     // allocated by GEMM libraries for the whole run, bytes
  } overheads;

  base::Where where;  // of the file
  base::Where where_gpus_per_node;

  // (dotted key, value) of every entry, in file order: what `list hardware` and the provenance show.
  std::vector<std::pair<std::string, Value>> all() const;
};

// Reads a profile; adds all faults. Ranges: capacities, bandwidths and rates > 0, efficiencies in (0, 1.5], latencies
// >= 0. Each value is written as
// `{ value: 3.35 TB/s, evidence: datasheet, source: "..." }`.
HardwareProfile read_hardware(const config::Node& root, const std::string& id, base::Faults& faults);

}  // namespace moeplan::topology
