#include <fmt/core.h>

#include <algorithm>
#include <string_view>

#include "base/check.h"
#include "cost/collectives.h"
#include "cost/longest.h"

// docs/models.md, All-to-all-v (L0).
//
// A sender whose messages average m bytes reaches the share m / (m + half) of a port's rate. Its time is then
// bytes / (rate m / (m + half)) = (bytes + messages half) / rate: small messages simply weigh `half` bytes more. So
// each port needs only one sum, of bytes + half over its non-empty messages.
namespace moeplan::cost {
namespace {

// Weighted bytes through the ports of one member (or, for NICs, of the first member on that NIC).
struct Ports {
  double nic_send = 0, nic_receive = 0, scale_up_send = 0, scale_up_receive = 0, local = 0;
  std::size_t nic_owner = 0;            // first member that shares the NIC: holds the sums of the NIC
  std::int64_t nic_sharers = 1;         // counted at the owner
  double nic_share = 1, pod_share = 1;  // of the usual rate; less where links are degraded
  std::int64_t domain = 0, host = 0, pod = 0;
  std::size_t pod_owner = 0;  // first member of the pod: holds its sums, counted where uplinks can bind
  std::int64_t pod_members = 0;
  double pod_send = 0, pod_receive = 0;  // bytes that cross the spine
  bool sends_beyond = false, receives_beyond = false;
};

struct Rates {
  double nic = 0, scale_up = 0, local = 0;
  double nic_latency = 0, scale_up_latency = 0;
  double uplink_per_gpu = 0;  // 0: the spine never binds
};

Rates rates_of(const topology::Cluster& cluster, const topology::HardwareProfile& profile) {
  Rates rates;
  rates.nic = cluster.nic_rate() / std::min(1.0, cluster.gpus_per_nic());  // a GPU with several NICs uses them all
  rates.scale_up = cluster.scale_up_rate();
  rates.local = profile.memory_bound.bandwidth.value / 2;  // a copy reads and writes
  rates.nic_latency = cluster.nic_latency();
  rates.scale_up_latency = cluster.scale_up_latency();
  if (cluster.oversubscription() > 1) rates.uplink_per_gpu = cluster.nic_rate_per_gpu() / cluster.oversubscription();
  return rates;
}

void find_nics(std::span<const std::int64_t> ranks, const topology::Cluster& cluster, std::vector<Ports>& ports) {
  const bool shared = cluster.gpus_per_nic() > 1 || cluster.degraded();
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    ports[i].domain = cluster.domain_of(ranks[i]);
    ports[i].host = cluster.host_of(ranks[i]);
    ports[i].nic_owner = i;
    if (!shared) continue;
    for (std::size_t j = 0; j < i; ++j) {
      if (ports[j].host != ports[i].host || cluster.port_of(ranks[j]) != cluster.port_of(ranks[i])) continue;
      ports[i].nic_owner = j;
      ++ports[j].nic_sharers;
      break;
    }
  }
  if (!cluster.degraded()) return;
  // A NIC that serves the GPUs of a missing rail, too, serves those of other groups at the same time.
  for (std::size_t i = 0; i < ranks.size(); ++i)
    ports[i].nic_share =
        std::min(cluster.port_share(ranks[i]), static_cast<double>(ports[i].nic_sharers) * cluster.nic_share(ranks[i]));
}

// Sums over the cut between leaves and spine. Other groups of the kind run at the same time, so that a group has the
// uplinks of as many GPUs as it has members in the pod.
void sum_pods(std::span<const std::int64_t> bytes, std::span<const std::int64_t> ranks,
              const topology::Cluster& cluster, std::vector<Ports>& ports) {
  const std::size_t members = ranks.size();
  for (std::size_t i = 0; i < members; ++i) {
    ports[i].pod = cluster.pod_of(ranks[i]);
    ports[i].pod_share = cluster.pod_share(ports[i].pod);
    ports[i].pod_owner = i;
    for (std::size_t j = 0; j < i; ++j) {
      if (ports[j].pod != ports[i].pod) continue;
      ports[i].pod_owner = j;
      break;
    }
    ++ports[ports[i].pod_owner].pod_members;
  }
  for (std::size_t i = 0; i < members; ++i) {
    for (std::size_t j = 0; j < members; ++j) {
      const auto size = static_cast<double>(bytes[i * members + j]);
      if (size <= 0 || ports[i].pod == ports[j].pod || ports[i].domain == ports[j].domain) continue;
      ports[ports[i].pod_owner].pod_send += size;
      ports[ports[j].pod_owner].pod_receive += size;
      ports[i].sends_beyond = true;
      ports[j].receives_beyond = true;
    }
  }
}

std::vector<Ports> port_sums(std::span<const std::int64_t> bytes, std::span<const std::int64_t> ranks,
                             const topology::Cluster& cluster, const topology::HardwareProfile& profile,
                             const Rates& rates) {
  const std::size_t members = ranks.size();
  MOEPLAN_CHECK(bytes.size() == members * members, "one entry a pair of members");
  std::vector<Ports> ports(members);
  find_nics(ranks, cluster, ports);
  const double nic_half = profile.network.message_half_size.value;
  const double scale_up_half = rates.scale_up_latency * rates.scale_up;
  for (std::size_t i = 0; i < members; ++i) {
    double nic_send = 0, scale_up_send = 0;
    for (std::size_t j = 0; j < members; ++j) {
      const auto size = static_cast<double>(bytes[i * members + j]);
      if (size <= 0) continue;
      if (i == j) {
        ports[i].local = size;
      } else if (ports[i].domain == ports[j].domain) {
        scale_up_send += size + scale_up_half;
        ports[j].scale_up_receive += size + scale_up_half;
      } else {
        nic_send += size + nic_half;
        ports[ports[j].nic_owner].nic_receive += size + nic_half;
      }
    }
    ports[i].scale_up_send = scale_up_send;
    ports[ports[i].nic_owner].nic_send += nic_send;
  }
  if (rates.uplink_per_gpu > 0) sum_pods(bytes, ranks, cluster, ports);
  return ports;
}

double port_time(double weighted_bytes, double rate, double latency_s) {
  return weighted_bytes > 0 ? latency_s + weighted_bytes / rate : 0;
}

// Seconds until the pod that `owner` stands for has sent, or received, all that crosses the spine.
double uplink_time(const Ports& owner, double crossing, const Rates& rates) {
  return port_time(crossing, owner.pod_share * (rates.uplink_per_gpu * static_cast<double>(owner.pod_members)),
                   rates.nic_latency);
}

double nic_time(const Ports& owner, double weighted_bytes, const Rates& rates) {
  return port_time(weighted_bytes, owner.nic_share * rates.nic, rates.nic_latency);
}

double finish_of(std::size_t member, const std::vector<Ports>& ports, const Rates& rates) {
  const Ports& own = ports[member];
  const Ports& nic = ports[own.nic_owner];
  double finish =
      std::max({nic_time(nic, nic.nic_send, rates), nic_time(nic, nic.nic_receive, rates),
                port_time(own.scale_up_send, rates.scale_up, rates.scale_up_latency),
                port_time(own.scale_up_receive, rates.scale_up, rates.scale_up_latency), own.local / rates.local});
  const Ports& pod = ports[own.pod_owner];
  if (own.sends_beyond) finish = std::max(finish, uplink_time(pod, pod.pod_send, rates));
  if (own.receives_beyond) finish = std::max(finish, uplink_time(pod, pod.pod_receive, rates));
  return finish;
}

// Where the profile has an entry for the group inside one domain, each member ends as a uniform exchange of as many
// bytes as its busier direction would; false where there is none.
bool finish_by_entry(std::span<const std::int64_t> bytes, std::span<const std::int64_t> ranks,
                     const topology::Cluster& cluster, const topology::HardwareProfile& profile,
                     std::span<double> finish_s) {
  if (profile.collectives.empty()) return false;
  const std::int64_t domain = cluster.domain_of(ranks.front());
  for (const std::int64_t rank : ranks)
    if (cluster.domain_of(rank) != domain) return false;
  const UsedEntry used = used_entry(topology::CollectiveKind::all_to_all, ranks, cluster, profile);
  if (used.entry == nullptr) return false;
  const std::size_t members = ranks.size();
  std::vector<double> sent(members), received(members);
  for (std::size_t i = 0; i < members; ++i) {
    for (std::size_t j = 0; j < members; ++j) {
      if (i == j) continue;
      const auto size = static_cast<double>(bytes[i * members + j]);
      sent[i] += size;
      received[j] += size;
    }
  }
  const double share = topology::wire_share(used.entry->kind, static_cast<double>(members));
  for (std::size_t i = 0; i < members; ++i) {
    const double busier = std::max(sent[i], received[i]) / share;
    const double local = static_cast<double>(bytes[i * members + i]) / (profile.memory_bound.bandwidth.value / 2);
    finish_s[i] =
        busier > 0 ? std::max(topology::entry_time(*used.entry, busier, used.link_rate).seconds, local) : local;
  }
  return true;
}

}  // namespace

void all_to_all_finish(std::span<const std::int64_t> bytes, std::span<const std::int64_t> ranks,
                       const topology::Cluster& cluster, const topology::HardwareProfile& profile,
                       std::span<double> finish_s) {
  MOEPLAN_CHECK(finish_s.size() == ranks.size(), "one finish time a member");
  if (!finish_by_entry(bytes, ranks, cluster, profile, finish_s)) {
    const Rates rates = rates_of(cluster, profile);
    const std::vector<Ports> ports = port_sums(bytes, ranks, cluster, profile, rates);
    for (std::size_t i = 0; i < ranks.size(); ++i) finish_s[i] = finish_of(i, ports, rates);
  }
  for (double& seconds : finish_s) seconds *= profile.time_scale.network;
}

AllToAllTime all_to_all_time(std::span<const std::int64_t> bytes, std::span<const std::int64_t> ranks,
                             const topology::Cluster& cluster, const topology::HardwareProfile& profile) {
  const Rates rates = rates_of(cluster, profile);
  const std::vector<Ports> ports = port_sums(bytes, ranks, cluster, profile, rates);
  AllToAllTime result;
  Longest longest;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    result.finish_s.push_back(finish_of(i, ports, rates));
    result.total_s = std::max(result.total_s, result.finish_s.back());
    if (ports[i].nic_owner == i) {
      longest.offer(nic_time(ports[i], ports[i].nic_send, rates), "nic send", i);
      longest.offer(nic_time(ports[i], ports[i].nic_receive, rates), "nic receive", i);
    }
    longest.offer(port_time(ports[i].scale_up_send, rates.scale_up, rates.scale_up_latency), "scale-up send", i);
    longest.offer(port_time(ports[i].scale_up_receive, rates.scale_up, rates.scale_up_latency), "scale-up receive", i);
    longest.offer(ports[i].local / rates.local, "local copy", i);
    if (rates.uplink_per_gpu > 0 && ports[i].pod_owner == i) {
      longest.offer(uplink_time(ports[i], ports[i].pod_send, rates), "uplinks", i);
      longest.offer(uplink_time(ports[i], ports[i].pod_receive, rates), "downlinks", i);
    }
  }
  if (longest.what() == nullptr) return result;  // nothing is sent
  const Ports& port = ports[longest.member()];
  const std::string_view what = longest.what();
  const bool is_nic = what.starts_with("nic");
  result.binding = what.ends_with("links") ? fmt::format("{} of pod {}", what, port.pod)
                                           : fmt::format("{} of rank {}", what, ranks[longest.member()]);
  if (is_nic && port.nic_sharers > 1) result.binding += fmt::format(" (NIC shared by {} ranks)", port.nic_sharers);
  result.slack_s = longest.slack_s();
  if (finish_by_entry(bytes, ranks, cluster, profile, result.finish_s))
    result.total_s = *std::max_element(result.finish_s.begin(), result.finish_s.end());
  const double scale = profile.time_scale.network;
  for (double& seconds : result.finish_s) seconds *= scale;
  result.total_s *= scale;
  result.slack_s *= scale;
  return result;
}

}  // namespace moeplan::cost
