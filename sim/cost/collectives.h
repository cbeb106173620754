#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "topology/cluster.h"
#include "topology/hardware.h"

namespace moeplan::cost {

enum class Collective { all_reduce, all_gather, reduce_scatter };

// Seconds from the last arrival to the end. `bytes`: the whole buffer (all-gather and reduce-scatter: the total over
// ranks, as nccl-tests counts it). An entry of the profile where it has one for the group; else the quickest of a ring,
// a tree and, where the profile has it, reduction in the switch (docs/models.md, Collectives). A group of one takes 0.
double collective_time_s(Collective kind, double bytes, std::span<const std::int64_t> ranks,
                         const topology::Cluster& cluster, const topology::HardwareProfile& profile);

// As above for every kind, and where the time comes from. `bytes` of all-to-all: what each rank sends, its own part
// included, to all alike; of send_recv: what each rank sends to the next. An entry of the profile for the group's ranks
// and hosts counts where the hosts have equal parts of it; else the general form.
enum class CollectiveBasis { measured, interpolated, extrapolated, law, general };
struct CollectiveTime {
  double seconds = 0;
  CollectiveBasis basis = CollectiveBasis::general;
};
CollectiveTime priced_collective(topology::CollectiveKind kind, double bytes, std::span<const std::int64_t> ranks,
                                 const topology::Cluster& cluster, const topology::HardwareProfile& profile);
// The entry that prices a group, and the rate of the link that binds it now; null where the general form does.
struct UsedEntry {
  const topology::CollectiveEntry* entry = nullptr;
  double link_rate = 0;
};
UsedEntry used_entry(topology::CollectiveKind kind, std::span<const std::int64_t> ranks,
                     const topology::Cluster& cluster, const topology::HardwareProfile& profile);

// The general form by one algorithm of the collective library, where somebody says which one ran. Only all-reduce has
// more than the ring; `nvls`: the scale-up switch adds up, and a tree between domains (NVLSTree); absent where the
// profile says nothing of such switches or the group's domains have too few members.
enum class Algorithm { ring, tree, nvls };
std::optional<double> algorithm_time_s(topology::CollectiveKind kind, Algorithm algorithm, double bytes,
                                       std::span<const std::int64_t> ranks, const topology::Cluster& cluster,
                                       const topology::HardwareProfile& profile);

// Point to point between two ranks.
double send_time_s(double bytes, std::int64_t from, std::int64_t to, const topology::Cluster& cluster,
                   const topology::HardwareProfile& profile);

// L0, port bound (docs/models.md, All-to-all-v): bytes[i * P + j] from member i to member j.
// T = max over classes of latency + bytes / rate: NIC send and receive (summed over the GPUs that share a NIC),
// scale-up send and receive of each GPU inside its domain, uplinks of each pod where leaves are oversubscribed; small
// messages lower the rate by m / (m + m_half). i == i costs a local copy only.
struct AllToAllTime {
  std::vector<double> finish_s;  // per member, after the last arrival: its own sends and receives are done
  double total_s = 0;            // max of finish_s
  std::string binding;           // "nic receive of rank 12", "scale-up send of rank 3", "uplinks of pod 2"
  double slack_s = 0;            // to the next resource class instance that would bind
};
AllToAllTime all_to_all_time(std::span<const std::int64_t> bytes, std::span<const std::int64_t> ranks,
                             const topology::Cluster& cluster, const topology::HardwareProfile& profile);
// As above without the texts: fills finish_s only; used inside the engine.
void all_to_all_finish(std::span<const std::int64_t> bytes, std::span<const std::int64_t> ranks,
                       const topology::Cluster& cluster, const topology::HardwareProfile& profile,
                       std::span<double> finish_s);

}  // namespace moeplan::cost
