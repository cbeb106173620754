#include "cost/collectives.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "cost/roofline.h"

// docs/models.md, Collectives.
namespace moeplan::cost {
namespace {

// How a group lies on the islands of one kind (scale-up domains, or pods below the spine).
struct Spread {
  std::int64_t islands = 0;
  std::int64_t fewest = 0, most = 0;  // members on one island
};

// `sorted`: ranks in ascending order, so that an island's members stand together.
template <typename IslandOf>
Spread spread_of(std::span<const std::int64_t> sorted, IslandOf&& island_of) {
  Spread spread;
  std::int64_t island = -1, members = 0;
  const auto close = [&] {
    if (members == 0) return;
    spread.fewest = spread.islands == 0 ? members : std::min(spread.fewest, members);
    spread.most = std::max(spread.most, members);
    ++spread.islands;
  };
  for (const std::int64_t rank : sorted) {
    if (const std::int64_t here = island_of(rank); here != island) {
      close();
      island = here;
      members = 0;
    }
    ++members;
  }
  close();
  return spread;
}

// Of the usual rate of the NICs, what the slowest of these ranks has: rings go at the rate of their slowest NIC.
double slowest_share(std::span<const std::int64_t> ranks, const topology::Cluster& cluster) {
  double share = 1;
  if (!cluster.degraded()) return share;
  for (const std::int64_t rank : ranks) share = std::min(share, cluster.nic_share(rank));
  return share;
}

// Members of the pod with the fewest, each counted as the share of the uplinks that are left.
double fewest_uplinks(std::span<const std::int64_t> sorted, const Spread& pods, const topology::Cluster& cluster) {
  auto fewest = static_cast<double>(pods.fewest);
  if (!cluster.degraded()) return fewest;
  std::int64_t members = 0;
  for (std::size_t at = 0; at < sorted.size(); ++at) {
    const std::int64_t pod = cluster.pod_of(sorted[at]);
    ++members;
    if (at + 1 < sorted.size() && cluster.pod_of(sorted[at + 1]) == pod) continue;
    fewest = std::min(fewest, cluster.pod_share(pod) * static_cast<double>(members));
    members = 0;
  }
  return fewest;
}

// Bytes/s between the domains that a ring runs through. Groups of one kind run at the same time, so a member has one
// GPU's share of the NICs; where leaves are oversubscribed, the rings of all GPUs of a pod leave through its uplinks,
// each once, which gives a group with m members in the pod the share of m GPUs.
double across_rate(std::span<const std::int64_t> sorted, const Spread& domains, const topology::Cluster& cluster) {
  const double per_gpu = cluster.nic_rate_per_gpu();
  double rate = slowest_share(sorted, cluster) * (static_cast<double>(domains.fewest) * per_gpu);
  if (cluster.oversubscription() > 1) {
    const Spread pods = spread_of(sorted, [&](std::int64_t rank) { return cluster.pod_of(rank); });
    if (pods.islands > 1)
      rate = std::min(rate, fewest_uplinks(sorted, pods, cluster) * per_gpu / cluster.oversubscription());
  }
  return rate;
}

// What every algorithm of a group needs.
struct Group {
  Spread domains;
  double members = 0, across = 0;  // bytes/s between domains, of all members of one domain
};

Group group_of(std::span<const std::int64_t> sorted, const topology::Cluster& cluster) {
  Group group;
  group.domains = spread_of(sorted, [&](std::int64_t rank) { return cluster.domain_of(rank); });
  group.members = static_cast<double>(sorted.size());
  if (group.domains.islands > 1) group.across = across_rate(sorted, group.domains, cluster);
  return group;
}

double launch_s(const topology::HardwareProfile::Network& network) {
  return network.collective_launch ? network.collective_launch->value : 0;
}

double ring_s(double passes, double bytes, const Group& group, const topology::Cluster& cluster,
              const topology::HardwareProfile::Network& network) {
  const auto domains = static_cast<double>(group.domains.islands);
  double bandwidth = 0;
  if (group.domains.most > 1) bandwidth = network.scale_up_bandwidth.value * network.collective_efficiency.value;
  if (group.domains.islands > 1) bandwidth = group.domains.most > 1 ? std::min(bandwidth, group.across) : group.across;
  const double transfer_s = passes * (group.members - 1) / group.members * bytes / bandwidth;

  // n - 1 steps a pass, one a domain boundary over NICs. The steps of the first domain (of one hop where every member
  // has a domain of its own) join the transfer by the power law that was fitted on single nodes; further ones add up.
  const double steps_s =
      passes * ((domains - 1) * cluster.nic_latency() + (group.members - domains) * cluster.scale_up_latency());
  const double joined_s =
      launch_s(network) + (group.domains.most > 1
                               ? passes * static_cast<double>(group.domains.most - 1) * cluster.scale_up_latency()
                               : passes * cluster.nic_latency());
  return steps_s + launch_s(network) - joined_s + power_join(joined_s, transfer_s, network.collective_exponent.value);
}

// All-reduce up and down a binary tree of domains. Inner nodes receive and send twice what a ring does, so that the
// NICs reach half a ring's rate; the steps across grow with the logarithm of the domains.
double tree_s(double bytes, const Group& group, const topology::Cluster& cluster,
              const topology::HardwareProfile::Network& network) {
  const double levels = std::ceil(std::log2(static_cast<double>(group.domains.islands)));
  const double inside = network.scale_up_bandwidth.value * network.collective_efficiency.value;
  const double volume = 2 * (group.members - 1) / group.members * bytes;
  const double transfer_s = std::max(group.domains.most > 1 ? volume / inside : 0.0, 2 * volume / group.across);
  const double inside_s = 2 * static_cast<double>(group.domains.most - 1) * cluster.scale_up_latency();
  const double across_s = 2 * levels * cluster.nic_latency();
  const double joined_s = launch_s(network) + (group.domains.most > 1 ? inside_s : 2 * cluster.nic_latency());
  return inside_s + across_s + launch_s(network) - joined_s +
         power_join(joined_s, transfer_s, network.collective_exponent.value);
}

// All-reduce that the scale-up switch adds up, and between domains a tree of what each GPU holds: two domains exchange
// one share each, more send up and down, as much as a ring.
double switch_s(double bytes, const Group& group, const topology::Cluster& cluster,
                const topology::HardwareProfile::Network& network) {
  const double levels = std::ceil(std::log2(static_cast<double>(group.domains.islands)));
  const double volume = 2 * (group.members - 1) / group.members * bytes;
  double transfer_s = volume / (network.scale_up_bandwidth.value * network.switch_reduction_efficiency->value);
  if (group.domains.islands > 1)
    transfer_s = std::max(transfer_s, (group.domains.islands == 2 ? bytes : volume) / group.across);
  const double joined_s =
      launch_s(network) + 2 * static_cast<double>(group.domains.most - 1) * cluster.scale_up_latency();
  return 2 * levels * cluster.nic_latency() + power_join(joined_s, transfer_s, network.collective_exponent.value);
}

bool adds_in_switch(const Group& group, const topology::HardwareProfile::Network& network) {
  return network.switch_reduction_from &&
         static_cast<double>(group.domains.fewest) >= network.switch_reduction_from->value;
}

double general_s(topology::CollectiveKind kind, double bytes, std::span<const std::int64_t> sorted,
                 const topology::Cluster& cluster, const topology::HardwareProfile& profile) {
  const topology::HardwareProfile::Network& network = profile.network;
  const Group group = group_of(sorted, cluster);
  if (kind != topology::CollectiveKind::all_reduce) return ring_s(1, bytes, group, cluster, network);
  double best = ring_s(2, bytes, group, cluster, network);
  if (group.domains.islands > 1) best = std::min(best, tree_s(bytes, group, cluster, network));
  if (adds_in_switch(group, network)) best = std::min(best, switch_s(bytes, group, cluster, network));
  return best;
}

// Uniform all-to-all by its ports.
double exchange_s(double bytes, std::span<const std::int64_t> ranks, const topology::Cluster& cluster,
                  const topology::HardwareProfile& profile) {
  const std::size_t members = ranks.size();
  const auto part = static_cast<std::int64_t>(std::llround(std::max(1.0, bytes / static_cast<double>(members))));
  std::vector<std::int64_t> matrix(members * members, part);
  std::vector<double> finish(members);
  all_to_all_finish(matrix, ranks, cluster, profile, finish);
  return *std::max_element(finish.begin(), finish.end());
}

CollectiveBasis basis_of(topology::Read how) {
  switch (how) {
    case topology::Read::measured:
      return CollectiveBasis::measured;
    case topology::Read::interpolated:
      return CollectiveBasis::interpolated;
    case topology::Read::extrapolated:
      return CollectiveBasis::extrapolated;
    case topology::Read::law:
      return CollectiveBasis::law;
  }
  MOEPLAN_CHECK(false, "unknown origin of a time");
}

topology::CollectiveKind kind_of(Collective kind) {
  switch (kind) {
    case Collective::all_reduce:
      return topology::CollectiveKind::all_reduce;
    case Collective::all_gather:
      return topology::CollectiveKind::all_gather;
    case Collective::reduce_scatter:
      return topology::CollectiveKind::reduce_scatter;
  }
  MOEPLAN_CHECK(false, "unknown collective");
}

std::span<const std::int64_t> sorted_ranks(std::span<const std::int64_t> ranks, std::vector<std::int64_t>& copy) {
  if (std::is_sorted(ranks.begin(), ranks.end())) return ranks;
  copy.assign(ranks.begin(), ranks.end());
  std::sort(copy.begin(), copy.end());
  return copy;
}

}  // namespace

UsedEntry used_entry(topology::CollectiveKind kind, std::span<const std::int64_t> ranks,
                     const topology::Cluster& cluster, const topology::HardwareProfile& profile) {
  if (profile.collectives.empty() || ranks.size() < 2) return {};
  std::vector<std::int64_t> copy;
  const auto sorted = sorted_ranks(ranks, copy);
  const Spread hosts = spread_of(sorted, [&](std::int64_t rank) { return cluster.host_of(rank); });
  if (hosts.fewest != hosts.most) return {};
  const auto* entry = profile.collective(kind, static_cast<std::int64_t>(ranks.size()), hosts.islands);
  if (entry == nullptr) return {};
  if (cluster.domain_of(sorted.front()) == cluster.domain_of(sorted.back()))
    return {entry, profile.network.scale_up_bandwidth.value};
  // Sweeps were taken on fabrics that do not block.
  if (cluster.oversubscription() > 1 && cluster.pod_of(sorted.front()) != cluster.pod_of(sorted.back())) return {};
  return {entry, slowest_share(sorted, cluster) * (cluster.nic_rate_per_gpu() / profile.network.nic_efficiency.value)};
}

CollectiveTime priced_collective(topology::CollectiveKind kind, double bytes, std::span<const std::int64_t> ranks,
                                 const topology::Cluster& cluster, const topology::HardwareProfile& profile) {
  MOEPLAN_CHECK(bytes >= 0, "bytes are never negative");
  if (ranks.size() < 2 || bytes == 0) return {};
  if (const UsedEntry used = used_entry(kind, ranks, cluster, profile); used.entry != nullptr) {
    const topology::EntryTime time = topology::entry_time(*used.entry, bytes, used.link_rate);
    return {profile.time_scale.network * time.seconds, basis_of(time.how)};
  }
  std::vector<std::int64_t> copy;
  const auto sorted = sorted_ranks(ranks, copy);
  if (kind == topology::CollectiveKind::all_to_all) return {exchange_s(bytes, sorted, cluster, profile)};
  if (kind != topology::CollectiveKind::send_recv)
    return {profile.time_scale.network * general_s(kind, bytes, sorted, cluster, profile)};
  double longest = 0;
  for (std::size_t i = 0; i < sorted.size(); ++i)
    longest = std::max(longest, send_time_s(bytes, sorted[i], sorted[(i + 1) % sorted.size()], cluster, profile));
  return {longest};
}

std::optional<double> algorithm_time_s(topology::CollectiveKind kind, Algorithm algorithm, double bytes,
                                       std::span<const std::int64_t> ranks, const topology::Cluster& cluster,
                                       const topology::HardwareProfile& profile) {
  MOEPLAN_CHECK(kind != topology::CollectiveKind::all_to_all && kind != topology::CollectiveKind::send_recv,
                "exchanges have no algorithms");
  if (ranks.size() < 2 || bytes == 0) return 0.0;
  std::vector<std::int64_t> copy;
  const Group group = group_of(sorted_ranks(ranks, copy), cluster);
  const topology::HardwareProfile::Network& network = profile.network;
  const double scale = profile.time_scale.network;
  if (kind != topology::CollectiveKind::all_reduce) return scale * ring_s(1, bytes, group, cluster, network);
  switch (algorithm) {
    case Algorithm::ring:
      return scale * ring_s(2, bytes, group, cluster, network);
    case Algorithm::tree:
      if (group.domains.islands < 2) return std::nullopt;
      return scale * tree_s(bytes, group, cluster, network);
    case Algorithm::nvls:
      if (!adds_in_switch(group, network)) return std::nullopt;
      return scale * switch_s(bytes, group, cluster, network);
  }
  MOEPLAN_CHECK(false, "unknown algorithm");
}

double collective_time_s(Collective kind, double bytes, std::span<const std::int64_t> ranks,
                         const topology::Cluster& cluster, const topology::HardwareProfile& profile) {
  return priced_collective(kind_of(kind), bytes, ranks, cluster, profile).seconds;
}

double send_time_s(double bytes, std::int64_t from, std::int64_t to, const topology::Cluster& cluster,
                   const topology::HardwareProfile& profile) {
  MOEPLAN_CHECK(bytes >= 0, "bytes are never negative");
  if (from == to || bytes == 0) return 0;
  if (cluster.domain_of(from) == cluster.domain_of(to)) {
    // One message: its half size is latency x rate, so the latency counts twice, as in all-to-all.
    return profile.time_scale.network * (2 * cluster.scale_up_latency() + bytes / cluster.scale_up_rate());
  }
  const double per_gpu = cluster.nic_rate_per_gpu();
  double rate = std::min(cluster.nic_share(from), cluster.nic_share(to)) * per_gpu;
  if (cluster.pod_of(from) != cluster.pod_of(to)) {  // the whole pod sends, too
    const double left = std::min(cluster.pod_share(cluster.pod_of(from)), cluster.pod_share(cluster.pod_of(to)));
    rate = std::min(rate, left * (per_gpu / cluster.oversubscription()));
  }
  return profile.time_scale.network *
         (cluster.nic_latency() + (bytes + profile.network.message_half_size.value) / rate);
}

}  // namespace moeplan::cost
