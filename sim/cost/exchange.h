#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "topology/cluster.h"
#include "topology/hardware.h"

// One exchange of bytes between ranks over shared links: by the fullest link (L0), and by max-min fair sharing (L1);
// docs/models.md, Shared links.
namespace moeplan::cost {

using Degraded = topology::DegradedLink;

// Where ranks are and what their links carry, as an exchange needs it.
struct Fabric {
  struct Rank {
    std::int64_t domain = 0, pod = 0;
    std::int64_t nic = 0;   // number over the whole fabric: ranks of one number share it
    std::int64_t rail = 0;  // the NIC that it would use were no rail missing, in the same numbers
  };
  std::vector<Rank> ranks;
  std::vector<std::int64_t> names;               // how texts call them
  std::vector<double> nic_rate;                  // of each NIC, one direction
  std::vector<double> pod_rate;                  // of each pod's uplinks; empty: they never bind
  double scale_up_rate = 0, local_rate = 0;      // bytes/s a rank; local 0: copies to oneself take no time
  double scale_up_latency = 0, nic_latency = 0;  // seconds, once a transfer
  double scale_up_half = 0, nic_half = 0;        // bytes that a message weighs more than it has
};

// Plain fabrics: nodes of `gpus_per_node`, a NIC each, effective rates; node uplinks carry the NICs' rate over
// `oversubscription`.
struct PlainFabric {
  std::int64_t gpus_per_node = 8;
  double scale_up_rate = 0, scale_up_latency = 0, nic_rate = 0, nic_latency = 0, oversubscription = 1;
};
Fabric plain_fabric(const PlainFabric& plain, std::int64_t ranks);
// The members of a group on a cluster, its degraded links included.
Fabric group_fabric(std::span<const std::int64_t> ranks, const topology::Cluster& cluster,
                    const topology::HardwareProfile& profile);
// Texts of what cannot be degraded so (no such NIC, rail or pod; nothing left of a node's NICs); else `fabric` is
// changed. `nics_per_node`: NICs of the ranks of one node.
std::optional<std::string> degrade(Fabric& fabric, const Degraded& degraded, std::int64_t gpus_per_node);

struct ExchangeTime {
  double l0_s = 0, l1_s = 0;
  std::string binding;      // of L0: "nic receive of rank 12", "uplinks of pod 2"; empty: nothing is sent
  double slack_s = 0;       // to the next link
  std::string next;         // which that is
  std::size_t classes = 0;  // of transfers, after like ones were put together
  std::size_t solves = 0;
};
// bytes[i * P + j] from rank i to rank j. `fair`: work out L1, too; else l1_s is l0_s.
ExchangeTime exchange_time(std::span<const std::int64_t> bytes, const Fabric& fabric, bool fair = true);
// L0 alone, without texts.
double exchange_bound_s(std::span<const std::int64_t> bytes, const Fabric& fabric);

}  // namespace moeplan::cost
