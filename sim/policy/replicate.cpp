#include "policy/replicate.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>

#include "policy/index.h"

namespace moeplan::policy {
namespace {

constexpr std::size_t kTries = 4;

struct Outcome {                                // of one placement
  std::vector<std::int64_t> forward, backward;  // loads by member
  std::vector<std::int64_t> quotas;
  std::int64_t retained = 0;
  std::int64_t largest_forward() const { return *std::max_element(forward.begin(), forward.end()); }
  std::int64_t largest_backward() const { return *std::max_element(backward.begin(), backward.end()); }
};

class Replicator {
 public:
  Replicator(std::span<const std::int64_t> counts, std::int64_t members, const LrmoeSettings& settings,
             const ReplicaCosts& costs, const RowCaps& caps)
      : counts_(counts),
        members_(members),
        settings_(settings),
        costs_(costs),
        caps_(caps),
        totals_(counts.size() / at(members), 0) {
    for (std::size_t i = 0; i < counts.size(); ++i) totals_[i % totals_.size()] += counts[i];
    if (costs.forward_row_s > 0 || costs.backward_row_s > 0) {
      forward_row_ = costs.forward_row_s;
      backward_row_ = costs.backward_row_s;
    }
    if (costs.bytes_per_s > 0) {
      const double sends = settings.mode == LrmoeSettings::Mode::kept ? 1 : 2;
      transfer_ = (sends * costs.weight_bytes + costs.gradient_bytes) / costs.bytes_per_s;
    }
  }

  Hosts run() {
    Hosts hosts = home_hosts(members_, static_cast<std::int64_t>(totals_.size()));
    Outcome now = outcome_of(hosts);
    while (true) {
      bool accepted = false;
      const std::vector<std::size_t> candidates = candidates_of(hosts, now);
      for (std::size_t i = 0; i < std::min(kTries, candidates.size()) && !accepted; ++i) {
        const std::int64_t host = host_for(candidates[i], hosts, now);
        if (host < 0) continue;
        Hosts trial = hosts;
        auto& list = trial[candidates[i]];
        list.insert(std::upper_bound(list.begin() + 1, list.end(), static_cast<std::int32_t>(host)),
                    static_cast<std::int32_t>(host));
        Outcome then = outcome_of(trial);
        if (!worth(now, then)) continue;
        hosts = std::move(trial);
        now = std::move(then);
        accepted = true;
      }
      if (!accepted) return hosts;
    }
  }

 private:
  Outcome outcome_of(const Hosts& hosts) const {
    Outcome outcome;
    const std::vector<std::int64_t> caps = caps_.of(extra_instances_of(hosts, members_));
    const Quotas quotas = water_fill(totals_, hosts, caps, settings_.min_rows, settings_.min_retained);
    std::int64_t total = 0;
    for (const std::int64_t rows : totals_) total += rows;
    outcome.forward = loads(totals_, hosts, {});
    outcome.backward = loads(quotas.rows, hosts, cap_levels(caps, total));
    for (std::size_t member = 0; member < outcome.backward.size(); ++member)
      outcome.backward[member] += quotas.room[member];
    for (const std::int64_t rows : outcome.backward) outcome.retained += rows;
    outcome.quotas = quotas.rows;
    return outcome;
  }

  std::vector<std::int64_t> loads(std::span<const std::int64_t> rows, const Hosts& hosts,
                                  const std::vector<std::int64_t>& held) const {
    const auto shares = capacity_aware_routing(rows, hosts, members_, held);
    std::vector<std::int64_t> sums(at(members_), 0);
    for (std::size_t expert = 0; expert < hosts.size(); ++expert) {
      for (std::size_t i = 0; i < hosts[expert].size(); ++i) sums[at(hosts[expert][i])] += shares[expert][i];
    }
    return sums;
  }

  std::vector<std::size_t> candidates_of(const Hosts& hosts, const Outcome& now) const {
    const std::int64_t forward = now.largest_forward(), backward = now.largest_backward();
    std::vector<std::size_t> list;
    for (std::size_t expert = 0; expert < hosts.size(); ++expert) {
      const bool cut = now.quotas[expert] < totals_[expert];
      const bool on_largest = std::any_of(hosts[expert].begin(), hosts[expert].end(), [&](std::int32_t host) {
        return now.forward[at(host)] == forward || now.backward[at(host)] == backward;
      });
      if (totals_[expert] > 0 && (cut || on_largest)) list.push_back(expert);
    }
    // a / hosts(x) against b / hosts(y) as whole numbers
    const auto more = [&](std::int64_t a, std::size_t x, std::int64_t b, std::size_t y) {
      return a * static_cast<std::int64_t>(hosts[y].size()) - b * static_cast<std::int64_t>(hosts[x].size());
    };
    std::stable_sort(list.begin(), list.end(), [&](std::size_t x, std::size_t y) {
      const std::int64_t retained = more(now.quotas[x], x, now.quotas[y], y);
      return retained != 0 ? retained > 0 : more(totals_[x], x, totals_[y], y) > 0;
    });
    return list;
  }

  // Member for one instance more, -1: none has a slot and memory.
  std::int64_t host_for(std::size_t expert, const Hosts& hosts, const Outcome& now) const {
    const std::vector<std::int64_t> extra = extra_instances_of(hosts, members_);
    std::int64_t best = -1;
    double best_time = 0;
    bool best_near = false;
    const std::int64_t node = node_of(largest_source(expert));
    for (std::int64_t member = 0; member < members_; ++member) {
      const auto& list = hosts[expert];
      if (std::find(list.begin(), list.end(), static_cast<std::int32_t>(member)) != list.end()) continue;
      if (extra[at(member)] >= settings_.max_instances || !caps_.admits(extra[at(member)] + 1)) continue;
      const double time = forward_row_ * static_cast<double>(now.forward[at(member)]) +
                          backward_row_ * static_cast<double>(now.backward[at(member)]);
      const bool near = node_of(member) == node;
      if (best < 0 || time < best_time || (time == best_time && near && !best_near)) {
        best = member;
        best_time = time;
        best_near = near;
      }
    }
    return best;
  }

  std::int64_t node_of(std::int64_t member) const {
    return costs_.members_per_node > 0 ? member / costs_.members_per_node : 0;
  }

  std::int64_t largest_source(std::size_t expert) const {
    std::int64_t best = 0;
    for (std::int64_t source = 1; source < members_; ++source) {
      if (counts_[at(source) * totals_.size() + expert] > counts_[at(best) * totals_.size() + expert]) best = source;
    }
    return best;
  }

  bool worth(const Outcome& now, const Outcome& then) const {
    if (then.retained < now.retained) return false;
    const double gain = forward_row_ * static_cast<double>(now.largest_forward() - then.largest_forward()) +
                        backward_row_ * static_cast<double>(now.largest_backward() - then.largest_backward());
    return gain > transfer_;
  }

  std::span<const std::int64_t> counts_;
  std::int64_t members_;
  const LrmoeSettings& settings_;
  const ReplicaCosts& costs_;
  const RowCaps& caps_;
  std::vector<std::int64_t> totals_;  // by expert
  double forward_row_ = 1, backward_row_ = 1;
  double transfer_ = 0;
};

}  // namespace

bool RowCaps::admits(std::int64_t extra) const {
  return !limited() || memory_rows - static_cast<double>(extra) * instance_rows >= 0;
}

std::vector<std::int64_t> RowCaps::of(std::span<const std::int64_t> extra_instances) const {
  constexpr double kMost = 9.0e18;
  std::vector<std::int64_t> caps;
  for (const std::int64_t extra : extra_instances) {
    const double left = std::max(0.0, memory_rows - static_cast<double>(extra) * instance_rows);
    const bool binds = limited() && left < kMost;
    caps.push_back(binds ? std::min(compute_rows, static_cast<std::int64_t>(std::floor(left))) : compute_rows);
  }
  return caps;
}

Hosts replicate_greedily(std::span<const std::int64_t> counts, std::int64_t members, const LrmoeSettings& settings,
                         const ReplicaCosts& costs, const RowCaps& caps) {
  return Replicator(counts, members, settings, costs, caps).run();
}

std::vector<std::int64_t> extra_instances_of(const Hosts& hosts, std::int64_t members) {
  std::vector<std::int64_t> extra(at(members), 0);
  for (const auto& list : hosts) {
    for (std::size_t i = 1; i < list.size(); ++i) ++extra[at(list[i])];
  }
  return extra;
}

}  // namespace moeplan::policy
