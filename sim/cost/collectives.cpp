#include "cost/collectives.h"

#include <algorithm>

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

// Bytes/s between the domains that a ring runs through. Groups of one kind run at the same time, so a member has one
// GPU's share of the NICs; where leaves are oversubscribed, the rings of all GPUs of a pod leave through its uplinks,
// each once, which gives a group with m members in the pod the share of m GPUs.
double across_rate(std::span<const std::int64_t> sorted, const Spread& domains, const topology::Cluster& cluster) {
  const double per_gpu = cluster.nic_rate_per_gpu();
  double rate = static_cast<double>(domains.fewest) * per_gpu;
  if (cluster.oversubscription() > 1) {
    const Spread pods = spread_of(sorted, [&](std::int64_t rank) { return cluster.pod_of(rank); });
    if (pods.islands > 1)
      rate = std::min(rate, static_cast<double>(pods.fewest) * per_gpu / cluster.oversubscription());
  }
  return rate;
}

}  // namespace

double collective_time_s(Collective kind, double bytes, std::span<const std::int64_t> ranks,
                         const topology::Cluster& cluster, const topology::HardwareProfile& profile) {
  MOEPLAN_CHECK(bytes >= 0, "bytes are never negative");
  if (ranks.size() < 2 || bytes == 0) return 0;
  std::vector<std::int64_t> copy;
  std::span<const std::int64_t> sorted = ranks;
  if (!std::is_sorted(ranks.begin(), ranks.end())) {
    copy.assign(ranks.begin(), ranks.end());
    std::sort(copy.begin(), copy.end());
    sorted = copy;
  }
  const Spread spread = spread_of(sorted, [&](std::int64_t rank) { return cluster.domain_of(rank); });
  const topology::HardwareProfile::Network& network = profile.network;
  const double passes = kind == Collective::all_reduce ? 2 : 1;
  const auto members = static_cast<double>(ranks.size());
  const auto domains = static_cast<double>(spread.islands);

  double bandwidth = 0;
  if (spread.most > 1) bandwidth = network.scale_up_bandwidth.value * network.collective_efficiency.value;
  if (spread.islands > 1) {
    const double across = across_rate(sorted, spread, cluster);
    bandwidth = spread.most > 1 ? std::min(bandwidth, across) : across;
  }
  const double transfer_s = passes * (members - 1) / members * bytes / bandwidth;

  // n - 1 steps a pass, one a domain boundary over NICs. The steps of the first domain (of one hop where every member
  // has a domain of its own) join the transfer by the power law that was fitted on single nodes; further ones add up.
  const double steps_s =
      passes * ((domains - 1) * cluster.nic_latency() + (members - domains) * cluster.scale_up_latency());
  const double joined_s = spread.most > 1 ? passes * static_cast<double>(spread.most - 1) * cluster.scale_up_latency()
                                          : passes * cluster.nic_latency();
  return steps_s - joined_s + power_join(joined_s, transfer_s, network.collective_exponent.value);
}

double send_time_s(double bytes, std::int64_t from, std::int64_t to, const topology::Cluster& cluster,
                   const topology::HardwareProfile& profile) {
  MOEPLAN_CHECK(bytes >= 0, "bytes are never negative");
  if (from == to || bytes == 0) return 0;
  if (cluster.domain_of(from) == cluster.domain_of(to)) {
    // One message: its half size is latency x rate, so the latency counts twice, as in all-to-all.
    return 2 * cluster.scale_up_latency() + bytes / cluster.scale_up_rate();
  }
  double rate = cluster.nic_rate_per_gpu();
  if (cluster.pod_of(from) != cluster.pod_of(to)) rate /= cluster.oversubscription();  // the whole pod sends, too
  return cluster.nic_latency() + (bytes + profile.network.message_half_size.value) / rate;
}

}  // namespace moeplan::cost
