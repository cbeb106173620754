#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "policy/index.h"
#include "policy/lrmoe.h"

namespace moeplan::policy {
namespace {

using Shares = std::vector<std::vector<std::int64_t>>;

// Pours `rows` over hosts as water over steps of height loads[host]; what does not fill a level goes to the lower
// members.
std::vector<std::int64_t> pour(std::int64_t rows, const std::vector<std::int32_t>& hosts,
                               const std::vector<std::int64_t>& loads) {
  std::vector<std::size_t> order(hosts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto load = [&](std::size_t i) { return loads[at(hosts[i])]; };
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return load(a) != load(b) ? load(a) < load(b) : hosts[a] < hosts[b]; });
  // The water stands on the first `wet` hosts: the most for which raising all of them to the last one's load is paid
  // for.
  std::size_t wet = 1;
  std::int64_t sum = load(order[0]);
  while (wet < order.size()) {
    const std::int64_t step = load(order[wet]);
    if (step * static_cast<std::int64_t>(wet) - sum > rows) break;
    sum += step;
    ++wet;
  }
  const std::int64_t level = (sum + rows) / static_cast<std::int64_t>(wet);
  std::int64_t rest = (sum + rows) % static_cast<std::int64_t>(wet);
  std::sort(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(wet),
            [&](std::size_t a, std::size_t b) { return hosts[a] < hosts[b]; });
  std::vector<std::int64_t> shares(hosts.size(), 0);
  for (std::size_t i = 0; i < wet; ++i) shares[order[i]] = level - load(order[i]) + (rest-- > 0 ? 1 : 0);
  return shares;
}

struct Step {  // how a member was reached: rows of `expert` move from its host number `from` to number `to`
  std::size_t expert = 0, from = 0, to = 0;
  bool seen = false;
};

// Members that rows of `start` can be moved to, over any number of experts in between.
std::vector<Step> reach(std::size_t start, HostLists hosts, const Shares& shares,
                        const std::vector<std::vector<std::pair<std::size_t, std::size_t>>>& instances) {
  std::vector<Step> steps(instances.size());
  std::vector<std::size_t> queue = {start};
  steps[start].seen = true;
  for (std::size_t head = 0; head < queue.size(); ++head) {
    for (const auto& [expert, from] : instances[queue[head]]) {
      if (shares[expert][from] == 0) continue;
      for (std::size_t to = 0; to < hosts[expert].size(); ++to) {
        const std::size_t member = at(hosts[expert][to]);
        if (steps[member].seen) continue;
        steps[member] = {expert, from, to, true};
        queue.push_back(member);
      }
    }
  }
  return steps;
}

// Pouring one expert after the other may leave the largest load above the smallest possible one. Rows are moved along
// paths from a largest member to one with at least two rows less. When such a member reaches none, all rows on what it
// reaches must stay there, and no spread has a smaller maximum.
void level_out(HostLists hosts, Shares& shares, std::vector<std::int64_t>& loads) {
  std::vector<std::vector<std::pair<std::size_t, std::size_t>>> instances(loads.size());
  for (std::size_t expert = 0; expert < hosts.size(); ++expert) {
    if (hosts[expert].size() < 2) continue;
    for (std::size_t i = 0; i < hosts[expert].size(); ++i) instances[at(hosts[expert][i])].emplace_back(expert, i);
  }
  while (true) {
    const std::size_t start = static_cast<std::size_t>(std::max_element(loads.begin(), loads.end()) - loads.begin());
    const std::vector<Step> steps = reach(start, hosts, shares, instances);
    std::size_t target = start;
    for (std::size_t member = 0; member < loads.size(); ++member) {
      if (steps[member].seen && loads[member] < loads[target]) target = member;
    }
    std::int64_t moved = (loads[start] - loads[target]) / 2;
    if (moved == 0) return;
    for (std::size_t member = target; member != start;) {
      const Step& step = steps[member];
      moved = std::min(moved, shares[step.expert][step.from]);
      member = at(hosts[step.expert][step.from]);
    }
    for (std::size_t member = target; member != start;) {
      const Step& step = steps[member];
      shares[step.expert][step.from] -= moved;
      shares[step.expert][step.to] += moved;
      member = at(hosts[step.expert][step.from]);
    }
    loads[start] -= moved;
    loads[target] += moved;
  }
}

}  // namespace

std::vector<std::vector<std::int64_t>> capacity_aware_routing(std::span<const std::int64_t> rows,
                                                              std::span<const std::vector<std::int32_t>> hosts,
                                                              std::int64_t members,
                                                              std::span<const std::int64_t> held) {
  MOEPLAN_CHECK(rows.size() == hosts.size(), "one list of hosts an expert");
  std::vector<std::size_t> order(rows.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return hosts[a].size() < hosts[b].size(); });
  std::vector<std::int64_t> loads(held.begin(), held.end());
  loads.resize(at(members), 0);
  Shares shares(rows.size());
  bool choice = false;
  for (const std::size_t expert : order) {
    MOEPLAN_CHECK(!hosts[expert].empty(), "an expert has a home");
    if (hosts[expert].size() == 1) {
      shares[expert] = {rows[expert]};
      loads[at(hosts[expert].front())] += rows[expert];
      continue;
    }
    choice = true;
    shares[expert] = pour(rows[expert], hosts[expert], loads);
    for (std::size_t i = 0; i < hosts[expert].size(); ++i) loads[at(hosts[expert][i])] += shares[expert][i];
  }
  if (choice) level_out(hosts, shares, loads);
  return shares;
}

}  // namespace moeplan::policy
