#include "cost/exchange.h"

#include <fmt/core.h>

#include <algorithm>

#include "base/check.h"
#include "cost/exchange_classes.h"

namespace moeplan::cost {
namespace {

// Of what a link may leave unused before rates are worked out again: times within a tenth of a percent.
constexpr double kTolerance = 4e-4;

// Weighted bytes of every link, both directions of every kind in turn.
struct Loads {
  std::vector<double> up, down, send, receive, pod_up, pod_down, local;
};

Loads loads_of(std::span<const std::int64_t> bytes, const Fabric& fabric) {
  const std::size_t members = fabric.ranks.size();
  MOEPLAN_CHECK(bytes.size() == members * members, "one entry a pair of ranks");
  Loads loads;
  loads.up.resize(members);
  loads.down.resize(members);
  loads.local.resize(members);
  loads.send.resize(fabric.nic_rate.size());
  loads.receive.resize(fabric.nic_rate.size());
  loads.pod_up.resize(fabric.pod_rate.size());
  loads.pod_down.resize(fabric.pod_rate.size());
  const bool pods = !fabric.pod_rate.empty();
  for (std::size_t i = 0; i < members; ++i) {
    const Fabric::Rank& from = fabric.ranks[i];
    double up = 0, send = 0, pod_up = 0;
    for (std::size_t j = 0; j < members; ++j) {
      const auto size = static_cast<double>(bytes[i * members + j]);
      if (size <= 0 || i == j) continue;
      const Fabric::Rank& to = fabric.ranks[j];
      if (from.domain == to.domain) {
        up += size + fabric.scale_up_half;
        loads.down[j] += size + fabric.scale_up_half;
        continue;
      }
      send += size + fabric.nic_half;
      loads.receive[static_cast<std::size_t>(to.nic)] += size + fabric.nic_half;
      if (!pods || from.pod == to.pod) continue;
      pod_up += size;
      loads.pod_down[static_cast<std::size_t>(to.pod)] += size;
    }
    loads.local[i] = static_cast<double>(bytes[i * members + i]);
    loads.up[i] = up;
    loads.send[static_cast<std::size_t>(from.nic)] += send;
    if (pods) loads.pod_up[static_cast<std::size_t>(from.pod)] += pod_up;
  }
  return loads;
}

// Calls offer(seconds, kind, number) for each link that carries something.
template <typename Offer>
void each_link(const Loads& loads, const Fabric& fabric, Offer&& offer) {
  const auto nics = [&](const std::vector<double>& load, const char* what) {
    for (std::size_t n = 0; n < load.size(); ++n)
      if (load[n] > 0) offer(fabric.nic_latency + load[n] / fabric.nic_rate[n], what, n);
  };
  const auto ports = [&](const std::vector<double>& load, const char* what) {
    for (std::size_t i = 0; i < load.size(); ++i)
      if (load[i] > 0) offer(fabric.scale_up_latency + load[i] / fabric.scale_up_rate, what, i);
  };
  const auto pods = [&](const std::vector<double>& load, const char* what) {
    for (std::size_t p = 0; p < load.size(); ++p)
      if (load[p] > 0) offer(fabric.nic_latency + load[p] / fabric.pod_rate[p], what, p);
  };
  nics(loads.send, "nic send");
  nics(loads.receive, "nic receive");
  ports(loads.up, "scale-up send");
  ports(loads.down, "scale-up receive");
  pods(loads.pod_up, "uplinks");
  pods(loads.pod_down, "downlinks");
  if (fabric.local_rate <= 0) return;
  for (std::size_t i = 0; i < loads.local.size(); ++i)
    if (loads.local[i] > 0) offer(loads.local[i] / fabric.local_rate, "local copy", i);
}

std::string name_of(const std::string& what, std::size_t number, const Fabric& fabric) {
  if (what.ends_with("links")) return fmt::format("{} of pod {}", what, number);
  if (!what.starts_with("nic")) return fmt::format("{} of rank {}", what, fabric.names[number]);
  std::int64_t first = -1, sharers = 0;
  for (std::size_t i = 0; i < fabric.ranks.size(); ++i) {
    if (fabric.ranks[i].nic != static_cast<std::int64_t>(number)) continue;
    if (sharers++ == 0) first = fabric.names[i];
  }
  const std::string name = fmt::format("{} of rank {}", what, first);
  return sharers > 1 ? name + fmt::format(" (NIC shared by {} ranks)", sharers) : name;
}

}  // namespace

double exchange_bound_s(std::span<const std::int64_t> bytes, const Fabric& fabric) {
  double longest = 0;
  each_link(loads_of(bytes, fabric), fabric,
            [&](double seconds, const char*, std::size_t) { longest = std::max(longest, seconds); });
  return longest;
}

ExchangeTime exchange_time(std::span<const std::int64_t> bytes, const Fabric& fabric, bool fair) {
  ExchangeTime time;
  const Loads loads = loads_of(bytes, fabric);
  double second = 0;
  std::string what, next;
  std::size_t number = 0, next_number = 0;
  each_link(loads, fabric, [&](double seconds, const char* kind, std::size_t which) {
    if (seconds > time.l0_s) {
      second = time.l0_s;
      next = what;
      next_number = number;
      time.l0_s = seconds;
      what = kind;
      number = which;
    } else if (seconds > second) {
      second = seconds;
      next = kind;
      next_number = which;
    }
  });
  if (!what.empty()) time.binding = name_of(what, number, fabric);
  if (!next.empty()) time.next = name_of(next, next_number, fabric);
  time.slack_s = time.l0_s - second;
  time.l1_s = time.l0_s;
  if (!fair || what.empty()) return time;
  const ExchangeClasses classes = classes_of(bytes, fabric);
  time.classes = classes.flows.size();
  if (time.classes == 0) return time;
  const FairShare share = share_fairly(classes.flows, kTolerance);
  time.solves = share.solves;
  for (std::size_t k = 0; k < time.classes; ++k)  // copies to oneself share nothing: L0 has them
    time.l1_s = std::max(time.l1_s, share.finish_s[k] + classes.latency_s[k]);
  return time;
}

}  // namespace moeplan::cost
