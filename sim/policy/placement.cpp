#include "policy/placement.h"

#include <algorithm>
#include <cstddef>

#include "base/check.h"
#include "policy/index.h"
#include "policy/lrmoe.h"

namespace moeplan::policy {
namespace {

// Deals the rows of one expert from its sources to its instances: give(source, index in hosts, rows).
template <class Give>
void deal(std::vector<std::int64_t>& left, const std::vector<std::int32_t>& hosts, std::vector<std::int64_t> wanted,
          std::int64_t members_per_node, const Give& give) {
  const auto members = static_cast<std::int64_t>(left.size());
  const auto move = [&](std::int64_t source, std::size_t host) {
    const std::int64_t rows = std::min(left[at(source)], wanted[host]);
    if (rows == 0) return;
    left[at(source)] -= rows;
    wanted[host] -= rows;
    give(source, host, rows);
  };
  for (std::size_t host = 0; host < hosts.size(); ++host) move(hosts[host], host);
  if (members_per_node > 0) {
    for (std::size_t host = 0; host < hosts.size(); ++host) {
      const std::int64_t first = hosts[host] / members_per_node * members_per_node;
      for (std::int64_t source = first; source < std::min(first + members_per_node, members); ++source)
        move(source, host);
    }
  }
  for (std::size_t host = 0; host < hosts.size(); ++host) {
    for (std::int64_t source = 0; source < members && wanted[host] > 0; ++source) move(source, host);
  }
}

}  // namespace

Hosts home_hosts(std::int64_t members, std::int64_t experts) {
  Hosts hosts(at(experts));
  for (std::int64_t expert = 0; expert < experts; ++expert)
    hosts[at(expert)] = {static_cast<std::int32_t>(expert / (experts / members))};
  return hosts;
}

RoutedRows place_on_hosts(std::span<const std::int64_t> counts, const Hosts& hosts, std::int64_t members,
                          std::int64_t members_per_node, std::span<const std::int64_t> held) {
  const auto experts = static_cast<std::int64_t>(hosts.size());
  if (std::all_of(hosts.begin(), hosts.end(), [](const auto& list) { return list.size() == 1; }))
    return place_at_home(counts, members, experts);
  MOEPLAN_CHECK(counts.size() == at(members * experts), "one count for each source and expert");
  std::vector<std::int64_t> totals(hosts.size(), 0);
  for (std::size_t i = 0; i < counts.size(); ++i) totals[i % hosts.size()] += counts[i];
  const auto shares = capacity_aware_routing(totals, hosts, members, held);

  // Instances of a member: its own experts in order, then those it hosts for others in order.
  std::vector<std::vector<std::int32_t>> own(at(members)), guests(at(members));
  for (std::size_t expert = 0; expert < hosts.size(); ++expert) {
    for (std::size_t i = 0; i < hosts[expert].size(); ++i)
      (i == 0 ? own : guests)[at(hosts[expert][i])].push_back(static_cast<std::int32_t>(expert));
  }
  RoutedRows rows;
  rows.members = members;
  rows.matrix.assign(at(members * members), 0);
  rows.instance_begin.push_back(0);
  std::vector<std::vector<std::size_t>> instance(hosts.size());  // number of each (expert, index in hosts)
  for (std::size_t expert = 0; expert < hosts.size(); ++expert) instance[expert].resize(hosts[expert].size());
  for (std::int64_t member = 0; member < members; ++member) {
    for (const auto* list : {&own[at(member)], &guests[at(member)]}) {
      for (const std::int32_t expert : *list) {
        const auto& where = hosts[at(expert)];
        const auto index = std::find(where.begin(), where.end(), static_cast<std::int32_t>(member)) - where.begin();
        instance[at(expert)][at(index)] = rows.instance_experts.size();
        rows.instance_experts.push_back(expert);
      }
    }
    rows.instance_begin.push_back(static_cast<std::int32_t>(rows.instance_experts.size()));
  }
  rows.instance_rows.assign(rows.instance_experts.size(), 0);

  std::vector<std::int64_t> left(at(members));
  for (std::size_t expert = 0; expert < hosts.size(); ++expert) {
    for (std::int64_t source = 0; source < members; ++source) left[at(source)] = counts[at(source * experts) + expert];
    deal(left, hosts[expert], shares[expert], members_per_node,
         [&](std::int64_t source, std::size_t host, std::int64_t moved) {
           rows.matrix[at(source * members + hosts[expert][host])] += static_cast<std::int32_t>(moved);
           rows.instance_rows[instance[expert][host]] += moved;
         });
  }
  return rows;
}

RoutedRows sum_of(const RoutedRows& a, const RoutedRows& b) {
  MOEPLAN_CHECK(a.instance_begin == b.instance_begin && a.instance_experts == b.instance_experts, "the same instances");
  RoutedRows sum = a;
  for (std::size_t i = 0; i < sum.matrix.size(); ++i) sum.matrix[i] += b.matrix[i];
  for (std::size_t i = 0; i < sum.instance_rows.size(); ++i) sum.instance_rows[i] += b.instance_rows[i];
  return sum;
}

std::vector<std::int32_t> replica_matrix(const Hosts& hosts, std::int64_t members) {
  std::vector<std::int32_t> matrix(at(members * members), 0);
  bool any = false;
  for (const auto& list : hosts) {
    for (std::size_t i = 1; i < list.size(); ++i) {
      ++matrix[at(list.front() * members + list[i])];
      any = true;
    }
  }
  if (!any) matrix.clear();
  return matrix;
}

}  // namespace moeplan::policy
