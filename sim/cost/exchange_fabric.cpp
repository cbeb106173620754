#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>

#include "base/check.h"
#include "cost/exchange.h"

namespace moeplan::cost {

Fabric plain_fabric(const PlainFabric& plain, std::int64_t ranks) {
  MOEPLAN_CHECK(plain.gpus_per_node >= 1 && ranks >= 1 && plain.scale_up_rate > 0 && plain.nic_rate > 0,
                "a fabric has nodes and rates");
  Fabric fabric;
  for (std::int64_t rank = 0; rank < ranks; ++rank) {
    fabric.ranks.push_back({rank / plain.gpus_per_node, rank / plain.gpus_per_node, rank, rank});
    fabric.names.push_back(rank);
  }
  fabric.nic_rate.assign(static_cast<std::size_t>(ranks), plain.nic_rate);
  fabric.scale_up_rate = plain.scale_up_rate;
  fabric.scale_up_latency = plain.scale_up_latency;
  fabric.nic_latency = plain.nic_latency;
  if (plain.oversubscription > 1) {
    const auto nodes = static_cast<std::size_t>(fabric.ranks.back().pod + 1);
    // A last node that is filled in part has its whole uplink all the same.
    fabric.pod_rate.assign(nodes, static_cast<double>(plain.gpus_per_node) * plain.nic_rate / plain.oversubscription);
  }
  return fabric;
}

Fabric group_fabric(std::span<const std::int64_t> ranks, const topology::Cluster& cluster,
                    const topology::HardwareProfile& profile) {
  Fabric fabric;
  fabric.names.assign(ranks.begin(), ranks.end());
  fabric.scale_up_rate = cluster.scale_up_rate();
  fabric.local_rate = profile.memory_bound.bandwidth.value / 2;
  fabric.scale_up_latency = cluster.scale_up_latency();
  fabric.nic_latency = cluster.nic_latency();
  fabric.scale_up_half = cluster.scale_up_latency() * cluster.scale_up_rate();
  fabric.nic_half = profile.network.message_half_size.value;
  // NICs and pods are numbered as their first rank comes.
  std::map<std::int64_t, std::int64_t> nics, pods;
  const double port_rate = cluster.nic_rate() / std::min(1.0, cluster.gpus_per_nic());
  const bool blocks = cluster.oversubscription() > 1;
  for (const std::int64_t rank : ranks) {
    Fabric::Rank place;
    place.domain = cluster.domain_of(rank);
    const auto [nic, is_new] = nics.try_emplace(cluster.port_of(rank), static_cast<std::int64_t>(nics.size()));
    place.nic = place.rail = nic->second;
    if (is_new) fabric.nic_rate.push_back(port_rate);
    place.pod = pods.try_emplace(cluster.pod_of(rank), static_cast<std::int64_t>(pods.size())).first->second;
    fabric.ranks.push_back(place);
  }
  if (cluster.degraded()) {
    std::vector<double> sharers(fabric.nic_rate.size(), 0);
    for (const Fabric::Rank& place : fabric.ranks) ++sharers[static_cast<std::size_t>(place.nic)];
    for (std::size_t i = 0; i < ranks.size(); ++i) {  // a NIC of two rails serves other groups, too
      const auto nic = static_cast<std::size_t>(fabric.ranks[i].nic);
      fabric.nic_rate[nic] =
          port_rate * std::min(cluster.port_share(ranks[i]), sharers[nic] * cluster.nic_share(ranks[i]));
    }
  }
  if (!blocks) return fabric;
  // Other groups of the kind run at the same time: a group has the uplinks of as many GPUs as it has in the pod.
  fabric.pod_rate.assign(pods.size(), 0);
  for (const Fabric::Rank& rank : fabric.ranks)
    fabric.pod_rate[static_cast<std::size_t>(rank.pod)] += cluster.nic_rate_per_gpu() / cluster.oversubscription();
  if (!cluster.degraded()) return fabric;
  for (const auto& [pod, number] : pods) fabric.pod_rate[static_cast<std::size_t>(number)] *= cluster.pod_share(pod);
  return fabric;
}

namespace {

// Of a node's NICs, the first behind `rail` that ranks use; nothing where there is no other.
std::optional<std::int64_t> next_used(const Fabric& fabric, const std::vector<std::int64_t>& nics, std::size_t rail) {
  for (std::size_t step = 1; step < nics.size(); ++step) {
    const std::int64_t nic = nics[(rail + step) % nics.size()];
    if (std::any_of(fabric.ranks.begin(), fabric.ranks.end(),
                    [&](const Fabric::Rank& rank) { return rank.nic == nic; }))
      return nic;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> degrade(Fabric& fabric, const Degraded& degraded, std::int64_t gpus_per_node) {
  const auto ranks = static_cast<std::int64_t>(fabric.ranks.size());
  switch (degraded.what) {
    case Degraded::What::nic: {
      const auto rank = std::find(fabric.names.begin(), fabric.names.end(), degraded.which);
      if (rank == fabric.names.end()) return fmt::format("there is no rank {} among the {}", degraded.which, ranks);
      if (degraded.share <= 0) return std::string("a NIC that is gone leaves its rank cut off; name the rail instead");
      const auto nic = fabric.ranks[static_cast<std::size_t>(rank - fabric.names.begin())].nic;
      fabric.nic_rate[static_cast<std::size_t>(nic)] *= degraded.share;
      return std::nullopt;
    }
    case Degraded::What::pod: {
      if (fabric.pod_rate.empty()) return std::string("no uplinks bind here: the fabric is not oversubscribed");
      if (degraded.which < 0 || degraded.which >= static_cast<std::int64_t>(fabric.pod_rate.size()))
        return fmt::format("there is no pod {} among the {}", degraded.which, fabric.pod_rate.size());
      if (degraded.share <= 0) return std::string("a pod without uplinks is cut off");
      fabric.pod_rate[static_cast<std::size_t>(degraded.which)] *= degraded.share;
      return std::nullopt;
    }
    case Degraded::What::rail:
      break;
  }
  // NICs of each node in order of their ranks, those of missing rails included: numbers of rails stay as they are.
  std::map<std::int64_t, std::vector<std::int64_t>> nodes;
  for (std::size_t i = 0; i < fabric.ranks.size(); ++i) {
    std::vector<std::int64_t>& nics = nodes[fabric.names[i] / gpus_per_node];
    if (std::find(nics.begin(), nics.end(), fabric.ranks[i].rail) == nics.end()) nics.push_back(fabric.ranks[i].rail);
  }
  const std::size_t rail = static_cast<std::size_t>(degraded.which);
  for (const auto& [node, nics] : nodes) {
    if (degraded.which < 0 || rail >= nics.size())
      return fmt::format("node {} has no rail {}: {} NICs of these ranks", node, degraded.which, nics.size());
    if (degraded.share <= 0 && !next_used(fabric, nics, rail)) return fmt::format("node {} has no other NIC", node);
  }
  for (const auto& [node, nics] : nodes) {
    if (degraded.share > 0) {
      fabric.nic_rate[static_cast<std::size_t>(nics[rail])] *= degraded.share;
      continue;
    }
    const std::int64_t instead = *next_used(fabric, nics, rail);
    for (Fabric::Rank& rank : fabric.ranks)
      if (rank.nic == nics[rail]) rank.nic = instead;
  }
  return std::nullopt;
}

}  // namespace moeplan::cost
