#include "topology/degraded.h"

#include <fmt/core.h>

#include <algorithm>

#include "topology/cluster.h"

namespace moeplan::topology {
namespace {

using What = DegradedLink::What;

bool is_missing_rail(const DegradedLink& link) { return link.what == What::rail && link.share <= 0; }

std::optional<std::string> nic_fault(const DegradedLink& link, std::span<const DegradedLink> links,
                                     const Cluster& whole) {
  if (link.which < 0 || link.which >= whole.gpus())
    return fmt::format("there is no rank {} among the {}", link.which, whole.gpus());
  if (link.share <= 0) return "a NIC that is gone leaves its rank cut off; name the rail instead";
  const std::int64_t rail = whole.port_of(link.which) % whole.ports_per_node();
  const bool missing = std::any_of(links.begin(), links.end(), [&](const DegradedLink& other) {
    return is_missing_rail(other) && other.which == rail;
  });
  if (missing) return fmt::format("the NIC of rank {} is of rail {}, which is missing", link.which, rail);
  return std::nullopt;
}

std::optional<std::string> rail_fault(const DegradedLink& link, std::span<const DegradedLink> before,
                                      const Cluster& whole) {
  const std::int64_t rails = whole.ports_per_node();
  if (link.which < 0 || link.which >= rails)
    return fmt::format("there is no rail {}: nodes have {}", link.which, rails);
  if (link.share > 0) return std::nullopt;
  if (std::count_if(before.begin(), before.end(), &is_missing_rail) + 1 >= rails)
    return rails == 1 ? "nodes have no other NIC" : "nodes are left without a NIC";
  return std::nullopt;
}

std::optional<std::string> pod_fault(const DegradedLink& link, const Cluster& whole) {
  if (whole.oversubscription() <= 1) return "no uplinks bind here: the fabric is not oversubscribed";
  const std::int64_t pods = whole.pod_of(whole.gpus() - 1) + 1;
  if (link.which < 0 || link.which >= pods) return fmt::format("there is no pod {} among the {}", link.which, pods);
  if (link.share <= 0) return "a pod without uplinks is cut off";
  return std::nullopt;
}

}  // namespace

std::string link_name(const DegradedLink& link) {
  switch (link.what) {
    case What::nic:
      return fmt::format("NIC of rank {}", link.which);
    case What::rail:
      return fmt::format("rail {}", link.which);
    case What::pod:
      return fmt::format("uplinks of pod {}", link.which);
  }
  return "";
}

std::string degraded_text(const DegradedLink& link) {
  return is_missing_rail(link) ? link_name(link) + " missing" : fmt::format("{} at {}", link_name(link), link.share);
}

std::vector<std::optional<std::string>> degraded_faults(std::span<const DegradedLink> links, const Cluster& whole) {
  std::vector<std::optional<std::string>> faults;
  for (std::size_t i = 0; i < links.size(); ++i) {
    const DegradedLink& link = links[i];
    const auto before = links.first(i);
    if (std::any_of(before.begin(), before.end(),
                    [&](const DegradedLink& other) { return other.what == link.what && other.which == link.which; })) {
      faults.emplace_back(link_name(link) + " is named twice");
      continue;
    }
    switch (link.what) {
      case What::nic:
        faults.push_back(nic_fault(link, links, whole));
        break;
      case What::rail:
        faults.push_back(rail_fault(link, before, whole));
        break;
      case What::pod:
        faults.push_back(pod_fault(link, whole));
        break;
    }
  }
  return faults;
}

}  // namespace moeplan::topology
