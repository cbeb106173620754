#include "cost/collective_links.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "base/check.h"

namespace moeplan::cost {
namespace {

using topology::CollectiveKind;

// Members of each domain, in rank order.
std::vector<std::vector<std::size_t>> domains_of(const Fabric& fabric) {
  std::map<std::int64_t, std::vector<std::size_t>> found;
  for (std::size_t i = 0; i < fabric.ranks.size(); ++i) found[fabric.ranks[i].domain].push_back(i);
  std::vector<std::vector<std::size_t>> domains;
  for (auto& [domain, members] : found) domains.push_back(std::move(members));
  return domains;
}

// Ring r enters and leaves every domain at another member, so that each ring crosses over a NIC of its own.
void add_rings(double bytes, const Fabric& fabric, std::vector<std::int64_t>& matrix) {
  const auto domains = domains_of(fabric);
  std::size_t rings = domains.front().size();
  for (const auto& members : domains) rings = std::min(rings, members.size());
  const auto part = std::llround(bytes / static_cast<double>(rings));
  std::vector<std::size_t> order;
  for (std::size_t r = 0; r < rings; ++r) {
    order.clear();
    for (const auto& members : domains)
      for (std::size_t at = 0; at < members.size(); ++at) order.push_back(members[(r + at) % members.size()]);
    for (std::size_t at = 0; at < order.size(); ++at)
      matrix[order[at] * fabric.ranks.size() + order[(at + 1) % order.size()]] += part;
  }
}

}  // namespace

std::vector<std::int64_t> transfers_of(CollectiveKind kind, double bytes, const Fabric& fabric) {
  const std::size_t members = fabric.ranks.size();
  std::vector<std::int64_t> matrix(members * members, 0);
  if (members < 2) return matrix;
  const double share = topology::wire_share(kind, static_cast<double>(members));
  switch (kind) {
    case CollectiveKind::all_to_all:
      for (std::size_t i = 0; i < members; ++i)
        for (std::size_t j = 0; j < members; ++j)
          if (i != j) matrix[i * members + j] = std::llround(bytes / static_cast<double>(members));
      return matrix;
    case CollectiveKind::send_recv:
      for (std::size_t i = 0; i < members; ++i) matrix[i * members + (i + 1) % members] = std::llround(bytes);
      return matrix;
    case CollectiveKind::all_reduce:
    case CollectiveKind::all_gather:
    case CollectiveKind::reduce_scatter:
      add_rings(share * bytes, fabric, matrix);
      return matrix;
  }
  MOEPLAN_CHECK(false, "unknown collective");
}

LinkedTime collective_with_links(CollectiveKind kind, double bytes, std::span<const std::int64_t> ranks,
                                 const topology::Cluster& cluster, const topology::HardwareProfile& profile,
                                 const Fabric& whole, const Fabric& fabric) {
  LinkedTime time;
  time.priced = priced_collective(kind, bytes, ranks, cluster, profile);
  if (const UsedEntry used = used_entry(kind, ranks, cluster, profile); used.entry != nullptr && bytes > 0)
    time.source = used.entry->source;
  Fabric bare = whole, bare_now = fabric;  // rings stream: latencies and small messages are in the priced time
  for (Fabric* one : {&bare, &bare_now}) {
    one->scale_up_latency = one->nic_latency = one->scale_up_half = one->nic_half = 0;
    if (kind != CollectiveKind::all_to_all && kind != CollectiveKind::send_recv)
      one->scale_up_rate = profile.network.scale_up_bandwidth.value * profile.network.collective_efficiency.value;
  }
  const std::vector<std::int64_t> matrix = transfers_of(kind, bytes, whole);
  time.exchange = exchange_time(matrix, bare_now);
  const double longer_s = std::max(0.0, time.exchange.l0_s - exchange_bound_s(matrix, bare));
  const double shared_s = time.exchange.l1_s - time.exchange.l0_s;
  time.exchange.l0_s = time.priced.seconds + longer_s;
  time.exchange.l1_s = time.exchange.l0_s + shared_s;
  return time;
}

LinkedTime exchange_with_links(std::span<const std::int64_t> bytes, std::span<const std::int64_t> ranks,
                               const topology::Cluster& cluster, const topology::HardwareProfile& profile,
                               const Fabric& whole, const Fabric& fabric) {
  LinkedTime time;
  time.exchange = exchange_time(bytes, fabric);
  time.priced.seconds = time.exchange.l0_s;
  const bool one_domain = std::all_of(ranks.begin(), ranks.end(), [&](std::int64_t rank) {
    return cluster.domain_of(rank) == cluster.domain_of(ranks.front());
  });
  const UsedEntry used = used_entry(CollectiveKind::all_to_all, ranks, cluster, profile);
  if (!one_domain || used.entry == nullptr || time.exchange.binding.empty()) return time;
  const double longer_s = std::max(0.0, time.exchange.l0_s - exchange_bound_s(bytes, whole));
  const double shared_s = time.exchange.l1_s - time.exchange.l0_s;
  const AllToAllTime measured = all_to_all_time(bytes, ranks, cluster, profile);
  time.priced = {measured.total_s,
                 used.entry->sizes_bytes.empty() ? CollectiveBasis::law : CollectiveBasis::interpolated};
  time.source = used.entry->source;
  time.exchange.l0_s = measured.total_s + longer_s;
  time.exchange.l1_s = time.exchange.l0_s + shared_s;
  return time;
}

double all_to_all_fair_time_s(std::span<const std::int64_t> bytes, std::span<const std::int64_t> ranks,
                              const topology::Cluster& cluster, const topology::HardwareProfile& profile,
                              double ports_s) {
  const ExchangeTime time = exchange_time(bytes, group_fabric(ranks, cluster, profile));
  return ports_s + profile.time_scale.network * std::max(0.0, time.l1_s - time.l0_s);
}

topology::HardwareProfile plain_profile(const PlainFabric& plain) {
  topology::HardwareProfile profile;
  profile.id = profile.title = "plain";
  topology::HardwareProfile::Network& network = profile.network;
  network.gpus_per_node.value = network.nics_per_node.value = static_cast<double>(plain.gpus_per_node);
  network.scale_up_bandwidth.value = plain.scale_up_rate;
  network.scale_up_latency.value = plain.scale_up_latency;
  network.nic_bandwidth.value = plain.nic_rate;
  network.nic_latency.value = plain.nic_latency;
  for (topology::Value* value : {&network.scale_up_efficiency, &network.nic_efficiency, &network.collective_efficiency,
                                 &network.collective_exponent})
    value->value = 1;
  if (plain.oversubscription > 1) {
    network.oversubscription = topology::Value{plain.oversubscription, topology::Evidence::assumed, "stated"};
    network.gpus_per_leaf = network.gpus_per_node;
  }
  return profile;
}

}  // namespace moeplan::cost
