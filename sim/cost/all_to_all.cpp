#include <fmt/core.h>

#include <algorithm>

#include "base/check.h"
#include "cost/collectives.h"

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
  std::size_t nic_owner = 0;     // first member that shares the NIC: holds the sums of the NIC
  std::int64_t nic_sharers = 1;  // counted at the owner
  std::int64_t node = 0;
};

struct Rates {
  double nic = 0, scale_up = 0, local = 0;
  double nic_latency = 0, scale_up_latency = 0;
};

Rates rates_of(const topology::Cluster& cluster, const topology::HardwareProfile& profile) {
  Rates rates;
  rates.nic = cluster.nic_rate() / std::min(1.0, cluster.gpus_per_nic());  // a GPU with several NICs uses them all
  rates.scale_up = cluster.scale_up_rate();
  rates.local = profile.memory_bound.bandwidth.value / 2;  // a copy reads and writes
  rates.nic_latency = cluster.nic_latency();
  rates.scale_up_latency = cluster.scale_up_latency();
  return rates;
}

void find_nics(std::span<const std::int64_t> ranks, const topology::Cluster& cluster, std::vector<Ports>& ports) {
  const bool shared = cluster.gpus_per_nic() > 1;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    ports[i].node = cluster.node_of(ranks[i]);
    ports[i].nic_owner = i;
    if (!shared) continue;
    for (std::size_t j = 0; j < i; ++j) {
      if (ports[j].node != ports[i].node || cluster.nic_of(ranks[j]) != cluster.nic_of(ranks[i])) continue;
      ports[i].nic_owner = j;
      ++ports[j].nic_sharers;
      break;
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
      } else if (ports[i].node == ports[j].node) {
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
  return ports;
}

double port_time(double weighted_bytes, double rate, double latency_s) {
  return weighted_bytes > 0 ? latency_s + weighted_bytes / rate : 0;
}

double finish_of(std::size_t member, const std::vector<Ports>& ports, const Rates& rates) {
  const Ports& own = ports[member];
  const Ports& nic = ports[own.nic_owner];
  return std::max({port_time(nic.nic_send, rates.nic, rates.nic_latency),
                   port_time(nic.nic_receive, rates.nic, rates.nic_latency),
                   port_time(own.scale_up_send, rates.scale_up, rates.scale_up_latency),
                   port_time(own.scale_up_receive, rates.scale_up, rates.scale_up_latency), own.local / rates.local});
}

// Keeps the two longest of the resources offered, and what the longest is; ties keep the first.
class Longest {
 public:
  void offer(double time_s, const char* what, std::size_t member) {
    if (time_s > first_s_) {
      second_s_ = first_s_;
      first_s_ = time_s;
      what_ = what;
      member_ = member;
    } else {
      second_s_ = std::max(second_s_, time_s);
    }
  }
  double slack_s() const { return first_s_ - second_s_; }
  const char* what() const { return what_; }
  std::size_t member() const { return member_; }

 private:
  double first_s_ = 0, second_s_ = 0;
  const char* what_ = nullptr;
  std::size_t member_ = 0;
};

}  // namespace

void all_to_all_finish(std::span<const std::int64_t> bytes, std::span<const std::int64_t> ranks,
                       const topology::Cluster& cluster, const topology::HardwareProfile& profile,
                       std::span<double> finish_s) {
  MOEPLAN_CHECK(finish_s.size() == ranks.size(), "one finish time a member");
  const Rates rates = rates_of(cluster, profile);
  const std::vector<Ports> ports = port_sums(bytes, ranks, cluster, profile, rates);
  for (std::size_t i = 0; i < ranks.size(); ++i) finish_s[i] = finish_of(i, ports, rates);
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
      longest.offer(port_time(ports[i].nic_send, rates.nic, rates.nic_latency), "nic send", i);
      longest.offer(port_time(ports[i].nic_receive, rates.nic, rates.nic_latency), "nic receive", i);
    }
    longest.offer(port_time(ports[i].scale_up_send, rates.scale_up, rates.scale_up_latency), "scale-up send", i);
    longest.offer(port_time(ports[i].scale_up_receive, rates.scale_up, rates.scale_up_latency), "scale-up receive", i);
    longest.offer(ports[i].local / rates.local, "local copy", i);
  }
  if (longest.what() == nullptr) return result;  // nothing is sent
  const Ports& port = ports[longest.member()];
  const bool is_nic = longest.what()[0] == 'n';
  result.binding = fmt::format("{} of rank {}", longest.what(), ranks[longest.member()]);
  if (is_nic && port.nic_sharers > 1) result.binding += fmt::format(" (NIC shared by {} ranks)", port.nic_sharers);
  result.slack_s = longest.slack_s();
  return result;
}

}  // namespace moeplan::cost
