#include "cost/exchange_classes.h"

#include <algorithm>
#include <bit>
#include <map>

#include "base/check.h"

namespace moeplan::cost {
namespace {

using Word = std::uint64_t;

// splitmix64's finaliser: every bit of the result depends on every bit of the word.
Word mixed(Word word) {
  word += 0x9e3779b97f4a7c15ULL;
  word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9ULL;
  word = (word ^ (word >> 27)) * 0x94d049bb133111ebULL;
  return word ^ (word >> 31);
}
Word of(double value) { return std::bit_cast<Word>(value); }

enum class Way : Word { inside = 1, across = 2, beyond = 3 };  // a domain; domains of a pod; pods

Way way_of(const Fabric::Rank& a, const Fabric::Rank& b, bool pods) {
  if (a.domain == b.domain) return Way::inside;
  return pods && a.pod != b.pod ? Way::beyond : Way::across;
}

// Numbers from 0 in order of the signatures; how many there are.
std::size_t numbered(const std::vector<Word>& signatures, std::vector<std::uint32_t>& numbers) {
  std::vector<Word> sorted = signatures;
  std::sort(sorted.begin(), sorted.end());
  sorted.erase(std::unique(sorted.begin(), sorted.end()), sorted.end());
  numbers.resize(signatures.size());
  for (std::size_t i = 0; i < signatures.size(); ++i)
    numbers[i] =
        static_cast<std::uint32_t>(std::lower_bound(sorted.begin(), sorted.end(), signatures[i]) - sorted.begin());
  return sorted.size();
}

// Which ranks, NICs and pods are alike.
struct Alike {
  std::vector<std::uint32_t> rank, nic, pod;  // number of each one's class
  std::size_t ranks = 0, nics = 0, pods = 0;  // classes
};

void number_shared(const Fabric& fabric, Alike& alike) {
  std::vector<Word> nics(fabric.nic_rate.size()), pods(fabric.pod_rate.size());
  for (std::size_t i = 0; i < fabric.ranks.size(); ++i) {
    const Fabric::Rank& rank = fabric.ranks[i];
    nics[static_cast<std::size_t>(rank.nic)] += mixed(alike.rank[i]);
    if (!pods.empty()) pods[static_cast<std::size_t>(rank.pod)] += mixed(alike.rank[i]);
  }
  for (std::size_t n = 0; n < nics.size(); ++n) nics[n] = mixed(nics[n] ^ mixed(of(fabric.nic_rate[n])));
  for (std::size_t p = 0; p < pods.size(); ++p) pods[p] = mixed(pods[p] ^ mixed(of(fabric.pod_rate[p])));
  alike.nics = numbered(nics, alike.nic);
  alike.pods = numbered(pods, alike.pod);
}

Alike refine(std::span<const std::int64_t> bytes, const Fabric& fabric) {
  const std::size_t members = fabric.ranks.size();
  const bool pods = !fabric.pod_rate.empty();
  Alike alike;
  alike.rank.assign(members, 0);
  alike.ranks = 1;
  number_shared(fabric, alike);
  std::vector<Word> signature(members), own(members);
  while (alike.ranks < members) {
    for (std::size_t i = 0; i < members; ++i) {
      const Fabric::Rank& rank = fabric.ranks[i];
      Word word = mixed(alike.rank[i]) + alike.nic[static_cast<std::size_t>(rank.nic)];
      if (pods) word = mixed(word) + alike.pod[static_cast<std::size_t>(rank.pod)];
      own[i] = mixed(word);
      signature[i] = own[i];
    }
    for (std::size_t i = 0; i < members; ++i) {
      Word sent = 0;
      for (std::size_t j = 0; j < members; ++j) {
        const std::int64_t size = bytes[i * members + j];
        if (size <= 0 || i == j) continue;
        const Word what =
            mixed(static_cast<Word>(size) * 4 + static_cast<Word>(way_of(fabric.ranks[i], fabric.ranks[j], pods)));
        sent += mixed(what ^ own[j]);
        signature[j] += mixed(what + own[i]);
      }
      signature[i] += mixed(sent);
    }
    const std::size_t before = alike.ranks, nics = alike.nics, shared = alike.pods;
    alike.ranks = numbered(signature, alike.rank);
    number_shared(fabric, alike);
    if (alike.ranks == before && alike.nics == nics && alike.pods == shared) break;
  }
  return alike;
}

// Numbers of the links of a class of ranks, NICs or pods, and how many members it has.
class Links {
 public:
  Links(const Fabric& fabric, const Alike& alike, FlowClasses& flows)
      : alike_(alike), ranks_(alike.ranks), nics_(alike.nics), pods_(alike.pods) {
    flows.capacity.assign(2 * (alike.ranks + alike.nics + alike.pods), 0);
    for (const std::uint32_t c : alike.rank) {
      flows.capacity[c] = flows.capacity[alike.ranks + c] = fabric.scale_up_rate;
      ++ranks_[c];
    }
    for (std::size_t n = 0; n < alike.nic.size(); ++n) {
      flows.capacity[send(alike.nic[n])] = flows.capacity[receive(alike.nic[n])] = fabric.nic_rate[n];
      ++nics_[alike.nic[n]];
    }
    for (std::size_t p = 0; p < alike.pod.size(); ++p) {
      flows.capacity[up(alike.pod[p])] = flows.capacity[down(alike.pod[p])] = fabric.pod_rate[p];
      ++pods_[alike.pod[p]];
    }
  }
  std::uint32_t send(std::uint32_t c) const { return number(2 * alike_.ranks + c); }
  std::uint32_t receive(std::uint32_t c) const { return number(2 * alike_.ranks + alike_.nics + c); }
  std::uint32_t up(std::uint32_t c) const { return number(2 * (alike_.ranks + alike_.nics) + c); }
  std::uint32_t down(std::uint32_t c) const { return number(2 * (alike_.ranks + alike_.nics) + alike_.pods + c); }
  std::uint32_t port_out(std::uint32_t c) const { return c; }
  std::uint32_t port_in(std::uint32_t c) const { return number(alike_.ranks + c); }
  double ranks(std::uint32_t c) const { return ranks_[c]; }
  double nics(std::uint32_t c) const { return nics_[c]; }
  double pods(std::uint32_t c) const { return pods_[c]; }

 private:
  static std::uint32_t number(std::size_t value) { return static_cast<std::uint32_t>(value); }
  const Alike& alike_;
  std::vector<double> ranks_, nics_, pods_;
};

struct Transfer {
  std::int64_t size = 0;
  std::uint32_t to = 0;
  Way way = Way::inside;
  auto operator<=>(const Transfer&) const = default;
};

}  // namespace

ExchangeClasses classes_of(std::span<const std::int64_t> bytes, const Fabric& fabric) {
  const std::size_t members = fabric.ranks.size();
  const bool pods = !fabric.pod_rate.empty();
  const Alike alike = refine(bytes, fabric);
  ExchangeClasses classes;
  const Links links(fabric, alike, classes.flows);
  std::vector<char> seen(alike.ranks);
  std::vector<Transfer> row;
  std::vector<std::pair<std::uint32_t, double>> route;
  for (std::size_t i = 0; i < members; ++i) {  // one rank stands for those alike
    const std::uint32_t from = alike.rank[i];
    if (seen[from] != 0) continue;
    seen[from] = 1;
    row.clear();
    for (std::size_t j = 0; j < members; ++j) {
      if (i == j || bytes[i * members + j] <= 0) continue;
      row.push_back({bytes[i * members + j], alike.rank[j], way_of(fabric.ranks[i], fabric.ranks[j], pods)});
    }
    std::sort(row.begin(), row.end());
    const std::uint32_t nic = alike.nic[static_cast<std::size_t>(fabric.ranks[i].nic)];
    const std::uint32_t pod = pods ? alike.pod[static_cast<std::size_t>(fabric.ranks[i].pod)] : 0;
    for (std::size_t at = 0; at < row.size();) {
      std::size_t end = at;
      while (end < row.size() && row[end] == row[at]) ++end;
      const auto out = static_cast<double>(end - at);  // of one rank
      const double all = out * links.ranks(from);
      const std::uint32_t to = row[at].to;
      route.clear();
      double size = static_cast<double>(row[at].size), latency = fabric.nic_latency;
      if (row[at].way == Way::inside) {
        size += fabric.scale_up_half;
        latency = fabric.scale_up_latency;
        route = {{links.port_out(from), out}, {links.port_in(to), all / links.ranks(to)}};
      } else {
        size += fabric.nic_half;
        const auto peer =
            static_cast<std::size_t>(std::find(alike.rank.begin(), alike.rank.end(), to) - alike.rank.begin());
        const std::uint32_t far = alike.nic[static_cast<std::size_t>(fabric.ranks[peer].nic)];
        route = {{links.send(nic), all / links.nics(nic)}, {links.receive(far), all / links.nics(far)}};
        if (row[at].way == Way::beyond) {
          const std::uint32_t below = alike.pod[static_cast<std::size_t>(fabric.ranks[peer].pod)];
          route.emplace_back(links.up(pod), all / links.pods(pod));
          route.emplace_back(links.down(below), all / links.pods(below));
        }
      }
      classes.flows.add(size, route);
      classes.latency_s.push_back(latency);
      at = end;
    }
  }
  return classes;
}

}  // namespace moeplan::cost
