#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

#include "base/check.h"
#include "base/checked.h"
#include "policy/lrmoe.h"

namespace moeplan::policy {
namespace {

// held: levels that the routing starts from; not part of the result.
std::vector<std::int64_t> loads_of(std::span<const std::int64_t> rows, HostLists hosts, std::size_t members,
                                   const std::vector<std::int64_t>& held) {
  std::vector<std::int64_t> loads(members, 0);
  if (std::all_of(hosts.begin(), hosts.end(), [](const auto& list) { return list.size() == 1; })) {
    for (std::size_t expert = 0; expert < hosts.size(); ++expert)
      loads[static_cast<std::size_t>(hosts[expert].front())] += rows[expert];
    return loads;  // nothing to spread, and this is called for every step of a bisection
  }
  const auto shares = capacity_aware_routing(rows, hosts, static_cast<std::int64_t>(members), held);
  for (std::size_t expert = 0; expert < hosts.size(); ++expert) {
    for (std::size_t i = 0; i < hosts[expert].size(); ++i)
      loads[static_cast<std::size_t>(hosts[expert][i])] += shares[expert][i];
  }
  return loads;
}

bool fits(const std::vector<std::int64_t>& loads, const std::vector<std::int64_t>& caps) {
  for (std::size_t member = 0; member < loads.size(); ++member) {
    if (loads[member] > caps[member]) return false;
  }
  return true;
}

// The floor wins over the caps: the lowest common level under which no cap may lie so that the members together may
// keep `needed` of their rows. Raising the lowest caps first keeps the busiest member as small as the floor allows.
std::vector<std::int64_t> lifted_caps(const std::vector<std::int64_t>& whole, std::span<const std::int64_t> row_cap,
                                      std::int64_t needed) {
  const auto kept = [&](std::int64_t level) {
    std::int64_t sum = 0;
    for (std::size_t member = 0; member < whole.size(); ++member)
      sum += std::min(whole[member], std::max(row_cap[member], level));
    return sum;
  };
  std::int64_t low = 0;
  std::int64_t high = *std::max_element(whole.begin(), whole.end());
  while (low < high) {
    const std::int64_t middle = low + (high - low) / 2;
    if (kept(middle) >= needed) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  std::vector<std::int64_t> caps(row_cap.begin(), row_cap.end());
  for (std::int64_t& cap : caps) cap = std::max(cap, low);
  return caps;
}

}  // namespace

std::vector<std::int64_t> cap_levels(std::span<const std::int64_t> row_cap, std::int64_t total) {
  const std::int64_t highest = std::min(total, *std::max_element(row_cap.begin(), row_cap.end()));
  std::vector<std::int64_t> levels;
  for (const std::int64_t cap : row_cap) levels.push_back(highest - std::min(cap, highest));
  return levels;
}

Quotas water_fill(std::span<const std::int64_t> counts, std::span<const std::vector<std::int32_t>> hosts,
                  std::span<const std::int64_t> row_cap, std::int64_t min_rows, double min_retained) {
  MOEPLAN_CHECK(counts.size() == hosts.size() && !row_cap.empty(), "one list of hosts an expert, one cap a member");
  const std::size_t members = row_cap.size();
  const std::int64_t total = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});
  const std::int64_t needed =
      std::min(total, static_cast<std::int64_t>(std::ceil(min_retained * static_cast<double>(total))));

  const std::vector<std::int64_t> held = cap_levels(row_cap, total);
  const auto quotas_at = [&](std::int64_t theta) {
    std::vector<std::int64_t> rows(counts.size());
    for (std::size_t expert = 0; expert < counts.size(); ++expert) {
      const std::int64_t share = std::max(theta * static_cast<std::int64_t>(hosts[expert].size()), min_rows);
      rows[expert] = std::min(counts[expert], share);
    }
    return rows;
  };
  // min_rows may alone exceed a cap: that member then takes its floor, and the others are not held back by it.
  std::vector<std::int64_t> caps = lifted_caps(loads_of(counts, hosts, members, held), row_cap, needed);
  const std::vector<std::int64_t> least = loads_of(quotas_at(0), hosts, members, held);
  for (std::size_t member = 0; member < members; ++member) caps[member] = std::max(caps[member], least[member]);

  std::int64_t low = 0;
  std::int64_t high = 0;
  for (std::size_t expert = 0; expert < counts.size(); ++expert)
    high = std::max(high, base::ceil_div(counts[expert], static_cast<std::int64_t>(hosts[expert].size())));
  while (low < high) {
    const std::int64_t middle = high - (high - low) / 2;
    if (fits(loads_of(quotas_at(middle), hosts, members, held), caps)) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }

  Quotas quotas;
  quotas.rows = quotas_at(low);
  quotas.theta = static_cast<double>(low);
  const std::vector<std::int64_t> loads = loads_of(quotas.rows, hosts, members, held);
  const std::vector<std::int64_t> whole = loads_of(counts, hosts, members, held);
  quotas.room.resize(members);
  for (std::size_t member = 0; member < members; ++member) {
    quotas.room[member] = std::max<std::int64_t>(0, std::min(caps[member], whole[member]) - loads[member]);
    if (std::min(whole[member], caps[member]) > row_cap[member]) quotas.floor_binds = true;
  }
  return quotas;
}

}  // namespace moeplan::policy
