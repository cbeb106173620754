#include "cost/dispatch.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <vector>

#include "base/check.h"
#include "cost/exchange.h"
#include "cost/longest.h"
#include "cost/roofline.h"

// docs/models.md, Dispatch kernels.
namespace moeplan::cost {
namespace {

struct Law {
  double launch_s = 0, rate = 0, exponent = 1, token_s = 0;
};

Law law_of(const DispatchKernel& kernel, const topology::HardwareProfile& profile) {
  const topology::HardwareProfile::Dispatch& keys = profile.dispatch;
  const double sms = kernel.sms > 0 ? static_cast<double>(kernel.sms) : keys.sms->value;
  const auto law = [&](const topology::OptionalValue& launch, const topology::OptionalValue& rate_per_sm,
                       const topology::OptionalValue& cap, const topology::OptionalValue& exponent,
                       const topology::OptionalValue& token_cost) {
    return Law{launch->value, std::min(sms * rate_per_sm->value, cap->value), exponent ? exponent->value : 1,
               token_cost ? token_cost->value / sms : 0};
  };
  if (kernel.combine)
    return law(keys.combine_launch, keys.combine_rate_per_sm, keys.combine_cap, keys.combine_exponent,
               keys.combine_token_cost);
  return law(keys.launch, keys.rate_per_sm, keys.cap, keys.exponent, keys.token_cost);
}

// Bytes through the ports of one member, in the direction of dispatch.
struct Member {
  std::int64_t domain = 0;
  std::size_t first = 0, peers = 1;            // its domain's members are first .. first + peers - 1 of the order below
  double inside_send = 0, inside_receive = 0;  // scale-up, its own rank included: the kernel copies those rows, too
  double nic_send = 0, nic_receive = 0;
};

// Seconds with the launch.
double joined_s(const Law& law, double seconds, const topology::HardwareProfile& profile) {
  return profile.time_scale.dispatch * power_join(law.launch_s, seconds, law.exponent);
}

// Members sorted by domain; `order[place[i]] == i`.
std::vector<std::size_t> by_domain(std::span<const std::int64_t> ranks) {
  std::vector<std::size_t> order(ranks.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return ranks[a] < ranks[b]; });
  return order;
}

std::int64_t place_members(std::span<const std::int64_t> ranks, const topology::Cluster& cluster,
                           const std::vector<std::size_t>& order, std::vector<Member>& members) {
  std::int64_t domains = 0;
  for (std::size_t start = 0; start < order.size(); ++domains) {
    const std::int64_t domain = cluster.domain_of(ranks[order[start]]);
    std::size_t end = start;
    while (end < order.size() && cluster.domain_of(ranks[order[end]]) == domain) ++end;
    for (std::size_t at = start; at < end; ++at) {
      Member& member = members[order[at]];
      member.domain = domain;
      member.first = start;
      member.peers = end - start;
    }
    start = end;
  }
  return domains;
}

}  // namespace

double distinct_ranks(double experts, double ranks, double top_k) {
  MOEPLAN_CHECK(ranks >= 1 && top_k >= 0 && top_k <= experts, "a token has at most as many experts as there are");
  // C(E - E/n, k) / C(E, k) as a product of k factors: the chance that a token has no expert on a given rank
  double none = 1;
  for (double i = 0; i < top_k; ++i) none *= std::max(0.0, experts - experts / ranks - i) / (experts - i);
  return ranks * (1 - none);
}

bool has_dispatch_kernels(const topology::HardwareProfile& profile) { return profile.dispatch.sms.has_value(); }

namespace {

void price_members(const DispatchKernel& kernel, std::span<const std::int64_t> rows,
                   std::span<const std::int64_t> ranks, const topology::Cluster& cluster,
                   const topology::HardwareProfile& profile, std::span<double> finish_s, Longest& longest) {
  const std::size_t count = ranks.size();
  MOEPLAN_CHECK(rows.size() == count * count && finish_s.size() == count, "one entry a pair, one time a member");
  MOEPLAN_CHECK(has_dispatch_kernels(profile), "the scenario refuses a dispatcher that the profile does not describe");
  MOEPLAN_CHECK(kernel.top_k > 0, "tokens have experts");
  std::vector<Member> members(count);
  const std::vector<std::size_t> order = by_domain(ranks);
  const auto domains = static_cast<double>(place_members(ranks, cluster, order, members));
  const double rank_share = distinct_ranks(kernel.experts, static_cast<double>(count), kernel.top_k) / kernel.top_k;
  const double domain_share = distinct_ranks(kernel.experts, domains, kernel.top_k) / kernel.top_k;

  for (std::size_t at = 0; at < count; ++at) {
    const std::size_t i = order[at];
    Member& sender = members[i];
    for (std::size_t j = 0; j < count; ++j) {
      const auto routed = static_cast<double>(rows[i * count + j]) * kernel.row_bytes;
      if (routed <= 0) continue;
      Member& receiver = members[j];
      const double deduplicated = routed * rank_share;
      receiver.inside_receive += deduplicated;
      if (sender.domain == receiver.domain) {
        sender.inside_send += deduplicated;
        continue;
      }
      // Over the NIC once a domain, to the member on the sender's rail, which passes rows on over scale-up.
      Member& forwarder = members[order[receiver.first + (at - sender.first) % receiver.peers]];
      sender.nic_send += routed * domain_share;
      forwarder.nic_receive += routed * domain_share;
      forwarder.inside_send += deduplicated;
    }
  }
  const Law law = law_of(kernel, profile);
  // Kernels of all ranks run at the same time: a GPU has its share of the node's NICs.
  const double nic_rate = cluster.nic_rate_per_gpu();
  const auto nic_s = [&](double bytes, std::size_t i) {
    return bytes > 0 ? cluster.nic_latency() + bytes / (cluster.nic_share(ranks[i]) * nic_rate) : 0.0;
  };
  for (std::size_t i = 0; i < count; ++i) {
    const Member& member = members[i];
    const double inside = std::max(member.inside_send, member.inside_receive);
    if (inside <= 0 && member.nic_send <= 0) {
      finish_s[i] = 0;
      continue;
    }
    // Forwarding is pipelined with the NICs: the longest binds. Combine sends the same bytes the other way.
    // Tokens as many as a balanced exchange of as many rows has.
    const double tokens = inside / (rank_share * kernel.top_k * kernel.row_bytes);
    const auto with_launch = [&](double seconds) { return joined_s(law, seconds, profile); };
    const double kernel_s = inside / law.rate + tokens * law.token_s;
    const double send_s = nic_s(member.nic_send, i), receive_s = nic_s(member.nic_receive, i);
    finish_s[i] = with_launch(std::max({kernel_s, send_s, receive_s}));
    longest.offer(with_launch(kernel_s), kernel.combine ? "combine kernel" : "dispatch kernel", i);
    if (send_s > 0) longest.offer(with_launch(send_s), "nic send", i);
    if (receive_s > 0) longest.offer(with_launch(receive_s), "nic receive", i);
  }
}

}  // namespace

void dispatch_finish(const DispatchKernel& kernel, std::span<const std::int64_t> rows,
                     std::span<const std::int64_t> ranks, const topology::Cluster& cluster,
                     const topology::HardwareProfile& profile, std::span<double> finish_s) {
  Longest longest;
  price_members(kernel, rows, ranks, cluster, profile, finish_s, longest);
}

AllToAllTime dispatch_time(const DispatchKernel& kernel, std::span<const std::int64_t> rows,
                           std::span<const std::int64_t> ranks, const topology::Cluster& cluster,
                           const topology::HardwareProfile& profile) {
  AllToAllTime result;
  result.finish_s.resize(ranks.size());
  Longest longest;
  price_members(kernel, rows, ranks, cluster, profile, result.finish_s, longest);
  if (longest.what() == nullptr) return result;
  result.total_s = *std::max_element(result.finish_s.begin(), result.finish_s.end());
  result.binding = fmt::format("{} of rank {}", longest.what(), ranks[longest.member()]);
  result.slack_s = longest.slack_s();
  return result;
}

double dispatch_fair_time_s(const DispatchKernel& kernel, std::span<const std::int64_t> rows,
                            std::span<const std::int64_t> ranks, const topology::Cluster& cluster,
                            const topology::HardwareProfile& profile) {
  const std::size_t count = ranks.size();
  const double ports_s = dispatch_time_s(kernel, rows, ranks, cluster, profile);
  std::vector<Member> members(count);
  const std::vector<std::size_t> order = by_domain(ranks);
  const auto domains = static_cast<double>(place_members(ranks, cluster, order, members));
  if (domains < 2) return ports_s;
  // What crosses domains: to the member on the sender's rail, as in price_members.
  const double domain_bytes = kernel.row_bytes * distinct_ranks(kernel.experts, domains, kernel.top_k) / kernel.top_k;
  std::vector<double> crossing(count * count, 0);
  for (std::size_t at = 0; at < count; ++at) {
    const std::size_t i = order[at];
    for (std::size_t j = 0; j < count; ++j) {
      const Member& receiver = members[j];
      if (receiver.domain == members[i].domain) continue;
      const std::size_t forwarder = order[receiver.first + (at - members[i].first) % receiver.peers];
      crossing[kernel.combine ? forwarder * count + i : i * count + forwarder] +=
          static_cast<double>(rows[i * count + j]) * domain_bytes;
    }
  }
  std::vector<std::int64_t> bytes(count * count);
  for (std::size_t at = 0; at < bytes.size(); ++at) bytes[at] = std::llround(crossing[at]);
  Fabric fabric = group_fabric(ranks, cluster, profile);
  fabric.nic_half = 0;  // as in price_members
  return std::max(ports_s, joined_s(law_of(kernel, profile), exchange_time(bytes, fabric).l1_s, profile));
}

double dispatch_time_s(const DispatchKernel& kernel, std::span<const std::int64_t> rows,
                       std::span<const std::int64_t> ranks, const topology::Cluster& cluster,
                       const topology::HardwareProfile& profile) {
  std::vector<double> finish(ranks.size());
  dispatch_finish(kernel, rows, ranks, cluster, profile, finish);
  return *std::max_element(finish.begin(), finish.end());
}

double allgather_dispatch_time_s(double tokens, double row_bytes, bool combine, std::span<const std::int64_t> ranks,
                                 const topology::Cluster& cluster, const topology::HardwareProfile& profile) {
  const double bytes = tokens * row_bytes * static_cast<double>(ranks.size());
  return collective_time_s(combine ? Collective::reduce_scatter : Collective::all_gather, bytes, ranks, cluster,
                           profile);
}

}  // namespace moeplan::cost
