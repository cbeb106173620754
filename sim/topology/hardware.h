#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/error.h"
#include "config/document.h"
#include "topology/collective_entries.h"
#include "topology/degraded.h"
#include "topology/evidence.h"

// One file under hw_profiles/: a GPU, its host and its network, each value with evidence and source.
namespace moeplan::topology {

struct Value {
  double value = 0;  // in base units (bytes, bytes/s, seconds, FLOP/s) or a plain number
  Evidence evidence = Evidence::assumed;
  std::string source;
};
using OptionalValue = std::optional<Value>;  // a key that a profile may leave out

struct HardwareProfile {
  std::string id, title;
  std::vector<std::string> aliases;  // names that logs and tables use for the same part
  std::string fabric;                // between hosts: chooses among entries of `collectives`; empty: not said

  struct Device {
    Value memory_capacity;             // bytes that the driver shows
    Value sm_count;                    // multiprocessors (AI cores on Ascend)
    Value peak_bf16;                   // dense FLOP/s of the datasheet: the denominator of MFU
    Value memory_bandwidth;            // datasheet, bytes/s
    OptionalValue peak_fp8, peak_fp4;  // dense FLOP/s of the datasheet; absent where the part has none
  } device;

  // `spread` of a section: relative standard deviation of its cost model's times on measurements kept out of the fit;
  // absent: nobody compared them (docs/models.md, Uncertainty).

  // t = launch + (compute^q + memory^q)^(1/q); compute counts 2mn(k + k_pad) on whole tiles (docs/models.md, Dense
  // GEMM).
  struct Gemm {
    Value launch, bandwidth, peak, k_pad, overlap_exponent;
    Value dgrad_efficiency, wgrad_efficiency;      // rate relative to the forward layout
    OptionalValue peak_fp8, peak_mxfp8, peak_fp4;  // as `peak`, of the other precisions; absent: not supported
    OptionalValue spread;
    // Rates under the power limit, in steps that go on; `peak` and its like are those of short bursts.
    OptionalValue sustained, sustained_fp8, sustained_mxfp8, sustained_fp4;
    // Share of those rates that products reach within training steps: ranks wait for the slowest part among many, and
    // operands come from memory. Default 1.
    OptionalValue in_steps;
    void drop_sustained();  // what single operations run at
  } gemm;

  // Grouped GEMM on a vector of rows: rows of each expert padded to whole tiles; weight bytes are a floor.
  struct GroupedGemm {
    Value tile_rows;                 // rows of one tile
    Value efficiency;                // rate relative to the dense GEMM's peak
    Value group_overhead;            // seconds per non-empty expert
    OptionalValue group_issue;       // no group takes less: libraries that issue one product a group; default 0
    OptionalValue overlap_exponent;  // default: the dense GEMM's
    OptionalValue spread;
    OptionalValue layer_overhead;  // seconds of a fused MoE layer beside its products and passes; default 0
  } grouped_gemm;

  // Causal FLOPs halved; a tile of queries against s keys takes as long as s + half_length keys at the peak rate. No
  // call is shorter than `tail` times its longest tile (docs/models.md, Attention).
  struct Attention {
    Value peak_hd128, half_length_hd128, peak_hd64, half_length_hd64;
    Value backward_rate;  // backward rate relative to forward (backward does 2.5 times the FLOPs)
    OptionalValue peak_hd256, half_length_hd256;  // default: as head dimension 128
    OptionalValue peak_mla, half_length_mla;      // queries and keys wider than values
    OptionalValue launch, backward_launch;  // seconds of a call; default: gemm.launch as a floor, and the forward's
    OptionalValue tail, tile_rows;          // defaults 0, 128
    OptionalValue backward_half_length, backward_tail;  // default: the forward's
    OptionalValue spread;
    OptionalValue cache_token;  // seconds a token to write keys and values to a paged cache (inference kernels)
  } attention;

  struct MemoryBound {
    Value floor;               // seconds of the smallest kernel
    Value bandwidth;           // achieved by streaming kernels, bytes/s
    Value permute_efficiency;  // of that bandwidth, for row gather and scatter
    Value loss_efficiency;     // for softmax cross-entropy
    OptionalValue spread;
  } memory_bound;

  // Kernels that deduplicate rows by rank (DeepEP, HybridEP): launch joined by `exponent` with
  // bytes / min(SMs * rate_per_sm, cap) + tokens * token_cost / SMs. All keys or none, but for exponents (default 1)
  // and token costs (default 0).
  struct Dispatch {
    OptionalValue launch, rate_per_sm, cap, exponent, token_cost;
    OptionalValue combine_launch, combine_rate_per_sm, combine_cap, combine_exponent, combine_token_cost;
    OptionalValue spread;
    OptionalValue sms;  // multiprocessors that the kernels take
  } dispatch;

  struct Host {
    Value launch;     // host seconds to launch one kernel, from compiled code or a graph
    Value operation;  // host seconds of one eager operation of the framework, its launch included
    Value sync;       // host seconds of one device-to-host wait beyond the device's own time
    OptionalValue spread;
    OptionalValue memory;            // bytes of host memory a node
    OptionalValue memory_bandwidth;  // bytes/s that streaming code reaches on a node, all its GPUs' processes together
  } host;

  struct Network {
    Value gpus_per_node;
    Value scale_up_bandwidth, scale_up_efficiency, scale_up_latency;  // per GPU and direction
    Value nics_per_node, nic_bandwidth, nic_efficiency, nic_latency;  // per NIC and direction
    Value message_half_size;      // bytes of one peer message at which half the rate is reached
    Value collective_efficiency;  // of scale_up_bandwidth, for ring collectives inside a node (they stream better than
                                  // all-to-all)
    Value collective_exponent;    // p of t = (alpha^p + (x/B)^p)^(1/p)
    OptionalValue collective_launch;  // seconds of a collective beyond its steps: kernel start and synchronisation
    OptionalValue collective_sms;     // multiprocessors that its kernels hold; absent: none
    OptionalValue switch_reduction_efficiency;  // of scale_up_bandwidth, bus bandwidth of an all-reduce that the
                                                // scale-up switch adds up (NVLS)
    OptionalValue switch_reduction_from;        // GPUs in a domain from which on the library chooses it
    OptionalValue scale_up_domain;      // GPUs that reach each other over scale-up links: whole nodes; default one node
    OptionalValue ranks_per_domain;     // of them, those on which one job's ranks lie; default all
    OptionalValue peer_to_peer;         // 1, or 0 where scale-up transfers are staged in host memory; default 1
    OptionalValue oversubscription;     // of the cut between leaves and spine, >= 1; default 1: nothing blocks
    OptionalValue gpus_per_leaf;        // GPUs whose NICs hang on one leaf switch
    OptionalValue rails;                // 1 where NIC i of every node is on leaf i; default 0
    OptionalValue health;               // share of the NIC rate that a fabric with faults keeps; default 1
    OptionalValue host_link_bandwidth;  // bytes/s a GPU between device and host memory, one direction, achieved

    OptionalValue spread;  // of collectives, all-to-alls, sends and host copies

    std::int64_t domain_gpus() const;  // ranks in one scale-up island, after defaults
  } network;

  struct Overheads {
    Value context;       // device bytes outside the allocator: context and loaded kernels
    Value communicator;  // device bytes outside the allocator, per communicator that a rank takes part in
    Value workspace;     // of one handle and stream of the vendor's GEMM library, held for the whole run, bytes
    OptionalValue transformer_engine_workspace;  // of each that Transformer Engine makes; default: as workspace
  } overheads;

  std::vector<DegradedLink> degraded;        // of this cluster, as the scenario states them; a profile's file has none
  std::vector<CollectiveEntry> collectives;  // sorted; empty: the general form of docs/models.md alone
  // The entry of a collective among `ranks` GPUs, evenly on `nodes` hosts, of this profile's fabric or of any; null
  // where there is none.
  const CollectiveEntry* collective(CollectiveKind kind, std::int64_t ranks, std::int64_t nodes) const;
  // Values that hold for one library of kernels instead of those above.
  struct Library {
    std::string name;
    std::vector<std::string> matches;  // texts of which the library's names in tables and logs hold one
    std::vector<std::pair<std::string, Value>> values;  // (dotted key, value)
  };
  std::vector<Library> libraries;

  // Operations of which this very part was timed: looked up, and between them what the cost model misses is
  // interpolated (docs/models.md, Measured shapes). Sorted by op, pass, type and sizes, each once.
  struct MeasuredShape {
    std::string op;     // "gemm": m, n, k; "attention": batch, heads, seq, qk_dim, v_dim
    std::string pass;   // "forward", "dgrad", "wgrad"; "forward", "backward"
    std::string dtype;  // "bf16", "fp8", "mxfp8", "nvfp4"
    std::vector<std::int64_t> sizes;
    double seconds = 0;
  };
  std::vector<MeasuredShape> shapes;

  // What every second of a section's cost model is multiplied by. Not read from a file: 1, but where the effect of a
  // model's error is asked for.
  struct TimeScale {
    double gemm = 1, grouped_gemm = 1, attention = 1, memory_bound = 1, dispatch = 1, network = 1;
    double host = 1;  // the host's own seconds
  } time_scale;

  base::Where where;  // of the file
  base::Where where_gpus_per_node;

  // (dotted key, value) of every entry that is there, in the order of the key list, then those of libraries
  // ("libraries.NAME.gemm.peak"): what `list hardware` and the provenance show.
  std::vector<std::pair<std::string, Value>> all() const;
};

// The library whose `matches` hold a part of `name`, whatever the letter case, the first of them; nullptr for none.
const HardwareProfile::Library* find_library(const HardwareProfile& profile, std::string_view name);
// The profile with the values of one library in the place of its own.
HardwareProfile with_library(HardwareProfile profile, const HardwareProfile::Library& library);
// The entry of a dotted key; nullptr where the profile leaves it out. set_value adds it. The key must be one.
const Value* value_at(const HardwareProfile& profile, std::string_view path);
void set_value(HardwareProfile& profile, std::string_view path, Value value);

// Whether a profile may hold an entry of that dotted key ("network.oversubscription").
bool is_hardware_key(std::string_view path);

// What is wrong with a number for that key, in base units, by the ranges of the profile's reader; empty: nothing.
std::string value_fault(std::string_view path, double value);

// Reads a profile; adds all faults. Ranges: capacities, bandwidths and rates > 0, efficiencies in (0, 1.5], latencies
// >= 0; and what ties keys together: domains of whole nodes, leaves of whole nodes, an achieved peak beside its
// datasheet peak, dispatch keys all or none. Each value is written as
// `{ value: 3.35 TB/s, evidence: datasheet, source: "..." }`.
HardwareProfile read_hardware(const config::Node& root, const std::string& id, base::Faults& faults);

}  // namespace moeplan::topology
