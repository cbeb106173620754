#include "plan/fold.h"

#include <algorithm>
#include <array>
#include <map>
#include <span>
#include <vector>

#include "cost/collectives.h"

namespace moeplan::plan {

namespace {

using topology::GroupKind;

constexpr std::array<GroupKind, 10> kKinds = {GroupKind::tp,    GroupKind::ep,    GroupKind::dp, GroupKind::edp,
                                              GroupKind::stage, GroupKind::world, GroupKind::cp, GroupKind::dp_only,
                                              GroupKind::etp,   GroupKind::etp_ep};
// A message that shows latency, and one that shows bandwidth.
constexpr std::array<double, 2> kSizes = {1024, 64.0 * 1024 * 1024};

bool groups_agree(const Plan& plan) {
  const auto& scenario = *plan.scenario;
  const std::int64_t moe_layers =
      scenario.model.moe_layer_count() == 0
          ? 0
          : static_cast<std::int64_t>(plan.decision_of.size()) / scenario.microbatches() / plan.groups_per_stage();
  const std::int64_t groups = plan.groups_per_stage();
  for (std::int64_t i = 0; i < moe_layers * scenario.microbatches(); ++i) {
    const auto first = plan.decision_of.begin() + i * groups;
    if (!std::all_of(first, first + groups, [&](std::int32_t id) { return id == *first; })) return false;
  }
  return true;
}

bool members_agree(const Plan& plan) {
  return std::all_of(plan.decisions.begin(), plan.decisions.end(),
                     [](const policy::LayerDecision& decision) { return decision.even(); });
}

// What links make of a group: a collective of all, one of its first `members`, and an exchange between all pairs.
std::vector<double> signature(const Plan& plan, std::span<const std::int64_t> ranks, std::int64_t members,
                              bool exchange) {
  const auto& profile = plan.scenario->hardware;
  std::vector<double> times;
  for (const double size : kSizes) {
    times.push_back(cost::collective_time_s(cost::Collective::all_gather, size, ranks, plan.cluster, profile));
    if (members > 0 && members < static_cast<std::int64_t>(ranks.size())) {
      times.push_back(cost::collective_time_s(cost::Collective::all_gather, size,
                                              ranks.first(static_cast<std::size_t>(members)), plan.cluster, profile));
    }
  }
  if (exchange && ranks.size() > 1) {
    const std::size_t p = ranks.size();
    const std::vector<std::int64_t> bytes(p * p, 1 << 20);
    std::vector<double> finish(p);
    cost::all_to_all_finish(bytes, ranks, plan.cluster, profile, finish);
    times.insert(times.end(), finish.begin(), finish.end());
  }
  return times;
}

// Which members of a group share a domain, a NIC and uplinks, numbered as they come: exchanges of uneven rows may be
// bound where even ones are not.
std::vector<double> places(const Plan& plan, std::span<const std::int64_t> ranks) {
  std::vector<double> numbers;
  const auto number = [&](const auto& place_of) {
    std::map<std::int64_t, std::size_t> known;
    for (const std::int64_t rank : ranks)
      numbers.push_back(static_cast<double>(known.try_emplace(place_of(rank), known.size()).first->second));
  };
  number([&](std::int64_t rank) { return plan.cluster.domain_of(rank); });
  number([&](std::int64_t rank) { return plan.cluster.port_of(rank); });
  if (plan.cluster.oversubscription() > 1) number([&](std::int64_t rank) { return plan.cluster.pod_of(rank); });
  return numbers;
}

bool links_agree(const Plan& plan, bool members_too) {
  const auto& layout = plan.scenario->layout;
  for (const GroupKind kind : kKinds) {
    if (topology::group_size(layout, kind) == 1) continue;
    const bool exchange = kind == GroupKind::ep || kind == GroupKind::etp_ep;
    const std::int64_t members =
        kind == GroupKind::dp || kind == GroupKind::edp ? plan.scenario->optimizer.shard_group : 0;
    std::vector<double> first;
    std::vector<char> seen(static_cast<std::size_t>(topology::group_count(layout, kind)), 0);
    for (std::int64_t rank = 0; rank < layout.world; ++rank) {
      char& known = seen[static_cast<std::size_t>(topology::group_index(layout, kind, rank))];
      if (known != 0) continue;
      known = 1;
      const auto ranks = topology::group_members(layout, kind, rank);
      auto times = signature(plan, ranks, members, exchange);
      if (exchange && !members_too) {
        const auto numbers = places(plan, ranks);
        times.insert(times.end(), numbers.begin(), numbers.end());
      }
      if (first.empty()) first = times;
      if (times != first) return false;
    }
    if (exchange && members_too) {
      const auto exchanged =
          std::span(first).subspan(first.size() - static_cast<std::size_t>(topology::group_size(layout, kind)));
      if (!std::all_of(exchanged.begin(), exchanged.end(), [&](double t) { return t == exchanged.front(); }))
        return false;
    }
  }
  return true;
}

// Sends to the next stage (from the last to the first, with virtual stages) take the same for all ranks of a stage.
bool borders_agree(const Plan& plan) {
  const auto& layout = plan.scenario->layout;
  if (layout.pp == 1) return true;
  for (std::int64_t stage = 0; stage < layout.pp; ++stage) {
    for (const double size : kSizes) {
      for (const bool back : {false, true}) {
        double first = -1;
        for (std::int64_t i = 0; i < layout.stage_size(); ++i) {
          const std::int64_t a = stage * layout.stage_size() + i, b = (a + layout.stage_size()) % layout.world;
          const double t = cost::send_time_s(size, back ? b : a, back ? a : b, plan.cluster, plan.scenario->hardware);
          if (first < 0) first = t;
          if (t != first) return false;
        }
      }
    }
  }
  return true;
}

// So do sums over mirrored ranks.
bool mirrors_agree(const Plan& plan) {
  const auto& layout = plan.scenario->layout;
  if (plan.scenario->stages.copies() == 1) return true;
  for (std::int64_t stage = 0; stage < layout.pp / 2; ++stage) {
    std::vector<double> first;
    for (std::int64_t i = 0; i < layout.stage_size(); ++i) {
      const auto ranks = topology::group_members(layout, GroupKind::mirror, stage * layout.stage_size() + i);
      const auto times = signature(plan, ranks, 0, false);
      if (first.empty()) first = times;
      if (times != first) return false;
    }
  }
  return true;
}

// Each rank's NIC and uplinks are as degraded as those of the rank that would stand for it.
bool degraded_agree(const Plan& plan, std::int64_t fold) {
  const topology::Cluster& cluster = plan.cluster;
  if (!cluster.degraded()) return true;
  const auto& layout = plan.scenario->layout;
  for (std::int64_t rank = 0; rank < layout.world; ++rank) {
    const std::int64_t first = plan.stage_of(rank) * layout.stage_size();
    const std::int64_t standing = first + (rank - first) % fold;
    if (cluster.nic_share(rank) != cluster.nic_share(standing) ||
        cluster.port_share(rank) != cluster.port_share(standing) ||
        cluster.pod_share(cluster.pod_of(rank)) != cluster.pod_share(cluster.pod_of(standing)))
      return false;
  }
  return true;
}

// Every group of a standing rank is closed: what its members are as, is in it.
bool closed(const Plan& plan, std::int64_t fold) {
  const auto& layout = plan.scenario->layout;
  std::vector<char> in(static_cast<std::size_t>(layout.world), 0);  // the group at hand
  for (const GroupKind kind : kKinds) {
    std::vector<char> seen(static_cast<std::size_t>(topology::group_count(layout, kind)), 0);
    for (std::int64_t stage = 0; stage < layout.pp; ++stage) {
      for (std::int64_t i = 0; i < fold; ++i) {
        const std::int64_t standing = stage * layout.stage_size() + i;
        char& known = seen[static_cast<std::size_t>(topology::group_index(layout, kind, standing))];
        if (known != 0) continue;
        known = 1;
        const auto members = topology::group_members(layout, kind, standing);
        for (const std::int64_t rank : members) in[static_cast<std::size_t>(rank)] = 1;
        for (const std::int64_t rank : members) {
          const std::int64_t first = plan.stage_of(rank) * layout.stage_size();
          if (in[static_cast<std::size_t>(first + (rank - first) % fold)] == 0) return false;
        }
        for (const std::int64_t rank : members) in[static_cast<std::size_t>(rank)] = 0;
      }
    }
  }
  return true;
}

}  // namespace

std::int64_t equal_ranks(const Plan& plan) {
  const auto& layout = plan.scenario->layout;
  if (!groups_agree(plan) || !borders_agree(plan) || !mirrors_agree(plan)) return layout.stage_size();
  const std::int64_t group = layout.ep * layout.etp;
  if (members_agree(plan) && degraded_agree(plan, 1) && links_agree(plan, true) && closed(plan, 1)) return 1;
  if (group < layout.stage_size() && degraded_agree(plan, group) && links_agree(plan, false) && closed(plan, group))
    return group;
  return layout.stage_size();
}

}  // namespace moeplan::plan
