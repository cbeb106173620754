#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "policy/decision.h"

// Experts with instances on several members, and rows spread over them.
namespace moeplan::policy {

// Members that hold an instance of each expert, home first, then ascending.
using Hosts = std::vector<std::vector<std::int32_t>>;

// Every expert at home alone: e on member e / (experts / members).
Hosts home_hosts(std::int64_t members, std::int64_t experts);

// Rows counts[source * experts + e] spread by capacity_aware_routing, starting from `held` rows a member (empty: none).
// Of an expert's rows an instance takes those of its own member first, then those of its node (members_per_node
// consecutive members; 0: all on one), then others, lower members first. With one host each: place_at_home.
RoutedRows place_on_hosts(std::span<const std::int64_t> counts, const Hosts& hosts, std::int64_t members,
                          std::int64_t members_per_node, std::span<const std::int64_t> held = {});

// Both together; they must have the same instances.
RoutedRows sum_of(const RoutedRows& a, const RoutedRows& b);

// [home * P + host] instances beyond those at home; empty when there are none.
std::vector<std::int32_t> replica_matrix(const Hosts& hosts, std::int64_t members);

}  // namespace moeplan::policy
