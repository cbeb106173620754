#include "cost/collectives.h"

#include <algorithm>

#include "base/check.h"
#include "cost/roofline.h"

// docs/models.md, Collectives.
namespace moeplan::cost {
namespace {

// How a group lies on the nodes.
struct Spread {
  std::int64_t nodes = 0;
  std::int64_t fewest = 0, most = 0;  // members on one node
};

Spread spread_of(std::span<const std::int64_t> ranks, const topology::Cluster& cluster) {
  const std::int64_t per_node = cluster.gpus_per_node();
  Spread spread;
  std::int64_t node = -1, members = 0;
  const auto close = [&] {
    if (members == 0) return;
    spread.fewest = spread.nodes == 0 ? members : std::min(spread.fewest, members);
    spread.most = std::max(spread.most, members);
    ++spread.nodes;
  };
  const auto count = [&](std::span<const std::int64_t> sorted) {
    for (const std::int64_t rank : sorted) {
      if (rank / per_node != node) {
        close();
        node = rank / per_node;
        members = 0;
      }
      ++members;
    }
    close();
  };
  if (std::is_sorted(ranks.begin(), ranks.end())) {
    count(ranks);
  } else {
    std::vector<std::int64_t> sorted(ranks.begin(), ranks.end());
    std::sort(sorted.begin(), sorted.end());
    count(sorted);
  }
  return spread;
}

// Share of the NICs that one GPU has when all GPUs of its node send: groups of one kind run at the same time.
double nic_rate_per_gpu(const topology::Cluster& cluster) { return cluster.nic_rate() / cluster.gpus_per_nic(); }

}  // namespace

double collective_time_s(Collective kind, double bytes, std::span<const std::int64_t> ranks,
                         const topology::Cluster& cluster, const topology::HardwareProfile& profile) {
  MOEPLAN_CHECK(bytes >= 0, "bytes are never negative");
  if (ranks.size() < 2 || bytes == 0) return 0;
  const Spread spread = spread_of(ranks, cluster);
  const topology::HardwareProfile::Network& network = profile.network;
  const double passes = kind == Collective::all_reduce ? 2 : 1;
  const auto members = static_cast<double>(ranks.size());
  const auto nodes = static_cast<double>(spread.nodes);

  double bandwidth = 0;
  if (spread.most > 1) bandwidth = network.scale_up_bandwidth.value * network.collective_efficiency.value;
  if (spread.nodes > 1) {
    const double across = static_cast<double>(spread.fewest) * nic_rate_per_gpu(cluster);
    bandwidth = spread.most > 1 ? std::min(bandwidth, across) : across;
  }
  const double transfer_s = passes * (members - 1) / members * bytes / bandwidth;

  // n - 1 steps a pass, one a node boundary over NICs. The steps of the first node (of one hop where every member has a
  // node of its own) join the transfer by the power law that was fitted on single nodes; further ones add up.
  const double steps_s =
      passes * ((nodes - 1) * cluster.nic_latency() + (members - nodes) * cluster.scale_up_latency());
  const double joined_s = spread.most > 1 ? passes * static_cast<double>(spread.most - 1) * cluster.scale_up_latency()
                                          : passes * cluster.nic_latency();
  return steps_s - joined_s + power_join(joined_s, transfer_s, network.collective_exponent.value);
}

double send_time_s(double bytes, std::int64_t from, std::int64_t to, const topology::Cluster& cluster,
                   const topology::HardwareProfile& profile) {
  MOEPLAN_CHECK(bytes >= 0, "bytes are never negative");
  if (from == to || bytes == 0) return 0;
  if (cluster.node_of(from) == cluster.node_of(to)) {
    // One message: its half size is latency x rate, so the latency counts twice, as in all-to-all.
    return 2 * cluster.scale_up_latency() + bytes / cluster.scale_up_rate();
  }
  return cluster.nic_latency() + (bytes + profile.network.message_half_size.value) / nic_rate_per_gpu(cluster);
}

}  // namespace moeplan::cost
