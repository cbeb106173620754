#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "config/reader.h"
#include "topology/evidence.h"

// What was measured of single collectives on a part: entries of `collectives` in a hardware profile.
namespace moeplan::topology {

enum class CollectiveKind { all_reduce, all_gather, reduce_scatter, all_to_all, send_recv };
inline constexpr std::size_t kCollectiveKinds = 5;
const std::array<std::string, kCollectiveKinds>& collective_names();
// Also of the names that nccl-tests uses (alltoall, sendrecv); nothing for another.
std::optional<CollectiveKind> collective_kind(std::string_view name);

// Bytes that cross a rank's link for a buffer of one byte: 2 (n - 1) / n for all-reduce, (n - 1) / n for all-gather,
// reduce-scatter (of the total over ranks) and all-to-all (of what one rank sends, its own part included), 1 for
// send_recv: nccl-tests' bus over algorithm bandwidth.
double wire_share(CollectiveKind kind, double ranks);

// One collective among `ranks` GPUs, the same number on each of `nodes` hosts. Either a table of sizes (ascending) and
// times, or t = (latency^p + (x / bandwidth)^p)^(1/p) with x = wire_share * size.
struct CollectiveEntry {
  CollectiveKind kind = CollectiveKind::all_reduce;
  std::int64_t ranks = 0, nodes = 0;
  std::string fabric;  // between hosts, where a sweep was taken on another than the profile's: "efa"; empty: any
  std::vector<double> sizes_bytes, times_s;  // empty: the law below
  double latency_s = 0, bandwidth = 0, exponent = 1;
  double link_rate = 0;  // bytes/s of the link that binds (scale-up port, or a GPU's share of NICs) as measured; 0: not
                         // said. Where the profile's link has another rate, transfers take so much longer.
  Evidence evidence = Evidence::assumed;
  std::string source;
  base::Where where;
};

enum class Read { measured, interpolated, extrapolated, law };
struct EntryTime {
  double seconds = 0;
  Read how = Read::law;
};
// Seconds of a buffer of `bytes` > 0 over links of `link_rate` (0: as measured). A table is interpolated in log size
// and log time; outside it goes on with the slope of its last two points, between no growth and growth with the size.
EntryTime entry_time(const CollectiveEntry& entry, double bytes, double link_rate = 0);

// The list at `key` of a profile, sorted by kind, ranks, nodes and fabric; adds all faults: an entry with both forms or
// none, lists of unequal length, sizes that do not rise, times that are 0, a second entry of one collective.
std::vector<CollectiveEntry> read_collectives(config::Reader& profile, const char* key, base::Faults& faults);

}  // namespace moeplan::topology
