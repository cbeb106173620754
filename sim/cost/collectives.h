#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "topology/cluster.h"
#include "topology/hardware.h"

namespace moeplan::cost {

enum class Collective { all_reduce, all_gather, reduce_scatter };

// Seconds from the last arrival to the end. `bytes`: the whole buffer (all-gather and reduce-scatter: the total over
// ranks, as nccl-tests counts it). Ring volume (n-1)/n (all-reduce twice that) over the slowest class of link on the
// ring (scale-up inside a domain, NICs between domains, leaf uplinks between pods), latency per step, joined as
// (alpha^p + (x/B)^p)^(1/p). A group of one takes 0.
double collective_time_s(Collective kind, double bytes, std::span<const std::int64_t> ranks,
                         const topology::Cluster& cluster, const topology::HardwareProfile& profile);

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
