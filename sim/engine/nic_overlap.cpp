#include "engine/nic_overlap.h"

#include <algorithm>
#include <map>
#include <vector>

#include "engine/flow.h"
#include "engine/plan_source.h"
#include "topology/layout.h"

namespace moeplan::engine {
namespace {

constexpr std::int64_t kMostOps = 2'000'000;  // a tenth of a second

// Sums over one direction of a NIC. Transfers come in the order of the program, so ends are gathered first.
class Direction {
 public:
  void add(std::int64_t start_ps, std::int64_t end_ps) {
    if (end_ps <= start_ps) return;
    changes_.emplace_back(start_ps, 1);
    changes_.emplace_back(end_ps, -1);
  }
  struct Sums {
    std::int64_t busy_ps = 0, overlap_ps = 0;
  };
  Sums sums() {
    std::sort(changes_.begin(), changes_.end());  // ends stand before starts of the same time
    Sums sums;
    std::int64_t running = 0, last_ps = 0;
    for (const auto& [time_ps, change] : changes_) {
      if (running > 0) sums.busy_ps += time_ps - last_ps;
      if (running > 1) sums.overlap_ps += time_ps - last_ps;
      running += change;
      last_ps = time_ps;
    }
    return sums;
  }

 private:
  std::vector<std::pair<std::int64_t, int>> changes_;
};

// Which ops of a rank cross its NIC.
class Crossing {
 public:
  Crossing(const plan::Plan& plan, std::int64_t rank) : plan_(plan), rank_(rank) {}

  bool crosses(const plan::Op& op) {
    if (op.work == plan::Work::send || op.work == plan::Work::receive) return neighbour_is_far(op);
    if (op.work != plan::Work::collective && op.work != plan::Work::all_to_all) return false;
    const auto [known, is_new] = of_group_.try_emplace({op.group, op.members}, false);
    if (is_new) known->second = group_is_far(op);
    return known->second;
  }

 private:
  bool far(std::int64_t other) const { return plan_.cluster.domain_of(other) != plan_.cluster.domain_of(rank_); }
  bool neighbour_is_far(const plan::Op& op) const {
    const auto& layout = plan_.scenario->layout;
    const bool next = flow_of(op).towards_next() == (op.work == plan::Work::send);
    const std::int64_t step = next ? layout.stage_size() : layout.world - layout.stage_size();
    return far((rank_ + step) % layout.world);
  }
  bool group_is_far(const plan::Op& op) const {
    auto ranks = topology::group_members(plan_.scenario->layout, op.group, rank_);
    if (op.members > 0 && op.members < static_cast<std::int64_t>(ranks.size()))
      ranks.resize(static_cast<std::size_t>(op.members));
    return std::any_of(ranks.begin(), ranks.end(), [&](std::int64_t other) { return far(other); });
  }

  const plan::Plan& plan_;
  std::int64_t rank_;
  std::map<std::pair<topology::GroupKind, std::int64_t>, bool> of_group_;
};

struct Followed {
  std::int64_t rank = 0;
  Crossing crossing;
  Direction out, in;
};

}  // namespace

std::optional<NicOverlap> nic_overlap(const plan::Plan& plan, std::int64_t ops) {
  if (ops > kMostOps) return std::nullopt;
  PlanSource source(plan);
  std::map<std::int64_t, Followed> followed;  // by their standing
  for (std::int64_t stage = 0; stage < plan.scenario->layout.pp; ++stage) {
    const std::int64_t rank = stage * plan.scenario->layout.stage_size();
    followed.try_emplace(source.standing_of(rank), Followed{rank, Crossing(plan, rank), {}, {}});
  }
  source.watch([&](std::int64_t standing, const plan::Op& op, const OpTimes& times) {
    const auto one = followed.find(standing);
    if (one == followed.end() || !one->second.crossing.crosses(op)) return;
    if (op.work != plan::Work::receive) one->second.out.add(times.start_ps, times.end_ps);
    if (op.work != plan::Work::send) one->second.in.add(times.start_ps, times.end_ps);
  });
  run_max_plus(source);
  NicOverlap overlap;
  for (auto& [standing, one] : followed) {
    const Direction::Sums out = one.out.sums(), in = one.in.sums();
    const double share = 1.0 / static_cast<double>(followed.size());
    const double seconds = static_cast<double>(std::max(out.overlap_ps, in.overlap_ps)) * kPicosecond;
    overlap.mean_s += share * seconds;
    overlap.busy_s += share * static_cast<double>(std::max(out.busy_ps, in.busy_ps)) * kPicosecond;
    if (seconds <= overlap.worst_s) continue;
    overlap.worst_s = seconds;
    overlap.worst_rank = one.rank;
  }
  return overlap;
}

}  // namespace moeplan::engine
