#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace moeplan::topology {

class Cluster;

// A link that is not as it should be: `share` of its rate is left.
struct DegradedLink {
  enum class What { nic, rail, pod };  // the NIC of rank `which`, NIC `which` of every node, uplinks of pod `which`
  What what = What::nic;
  std::int64_t which = 0;
  double share = 1;  // 0 for a rail: missing, its ranks use the next NIC of their node that is there
};

// "rail 2"; with its share, "rail 2 at 0.5" or "rail 2 missing".
std::string link_name(const DegradedLink& link);
std::string degraded_text(const DegradedLink& link);

// For each link why it cannot be degraded so on this cluster (no such NIC, rail or pod; a rank cut off; named before);
// nothing where it can. `whole`: the cluster with no degraded link.
std::vector<std::optional<std::string>> degraded_faults(std::span<const DegradedLink> links, const Cluster& whole);

}  // namespace moeplan::topology
