#include "cost/fair_share.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <queue>

#include "base/check.h"

namespace moeplan::cost {
namespace {

using Index = std::uint32_t;
constexpr double kNever = std::numeric_limits<double>::infinity();

// A link's level, the rate at which its transfers would fill it; the smallest first, ties by number.
struct Level {
  double rate = 0;
  Index link = 0;
  bool operator>(const Level& other) const { return rate != other.rate ? rate > other.rate : link > other.link; }
};

class Sharing {
 public:
  Sharing(const FlowClasses& flows, double tolerance)
      : flows_(flows),
        tolerance_(tolerance),
        left_(flows.bytes),
        rate_(flows.size()),
        end_(flows.size()),
        busy_(flows.capacity.size()),
        free_(flows.capacity.size()),
        open_(flows.capacity.size()),
        extra_(flows.capacity.size()),
        saturated_(flows.capacity.size()),
        lost_(flows.capacity.size()),
        lost_rate_(flows.capacity.size()),
        lost_moment_(flows.capacity.size()) {
    for (Index k = 0; k < flows.size(); ++k) {
      active_.push_back(k);
      for (Index at = flows.first[k]; at < flows.first[k + 1]; ++at) busy_[flows.link[at]] += flows.weight[at];
    }
    // No schedule is shorter than the fullest link needs.
    std::vector<double> load(flows.capacity.size());
    for (Index k = 0; k < flows.size(); ++k)
      for (Index at = flows.first[k]; at < flows.first[k + 1]; ++at)
        load[flows.link[at]] += flows.weight[at] * flows.bytes[k];
    for (std::size_t l = 0; l < load.size(); ++l) shortest_s_ = std::max(shortest_s_, load[l] / flows.capacity[l]);
    list_by_link();
  }

  FairShare run() {
    FairShare result;
    result.finish_s.resize(flows_.size());
    while (!active_.empty()) {
      solve();
      ++result.solves;
      advance(result.finish_s);
      if (active_.size() * 2 < listed_) list_by_link();
    }
    return result;
  }

 private:
  // Active classes of each link, contiguous.
  void list_by_link() {
    list_first_.assign(flows_.capacity.size() + 1, 0);
    for (const Index k : active_)
      for (Index at = flows_.first[k]; at < flows_.first[k + 1]; ++at) ++list_first_[flows_.link[at] + 1];
    for (std::size_t l = 1; l < list_first_.size(); ++l) list_first_[l] += list_first_[l - 1];
    list_.resize(list_first_.back());
    std::vector<Index> next(list_first_.begin(), list_first_.end() - 1);
    for (const Index k : active_)
      for (Index at = flows_.first[k]; at < flows_.first[k + 1]; ++at) list_[next[flows_.link[at]]++] = k;
    listed_ = active_.size();
  }

  // Progressive filling: the link with the lowest level settles its transfers there; the others' levels only rise.
  void solve() {
    std::vector<Level> levels;
    levels.reserve(busy_.size());
    bool repaying = false;  // what links lost comes back over about the next window, as a higher capacity
    for (Index l = 0; l < busy_.size(); ++l) {
      extra_[l] = window_s_ > 0 ? lost_[l] / window_s_ : 0;
      free_[l] = flows_.capacity[l] + extra_[l];
      repaying = repaying || (extra_[l] > 0 && busy_[l] > 0);
      open_[l] = busy_[l];
      saturated_[l] = 0;
      if (busy_[l] > 0) levels.push_back({free_[l] / open_[l], l});
    }
    until_most_s_ = repaying ? now_s_ + window_s_ : kNever;
    for (const Index k : active_) rate_[k] = -1;
    std::priority_queue<Level, std::vector<Level>, std::greater<>> queue(std::greater<>{}, std::move(levels));
    std::size_t unsettled = active_.size();
    while (unsettled > 0) {
      MOEPLAN_CHECK(!queue.empty(), "every transfer crosses a link");
      const Level lowest = queue.top();
      queue.pop();
      if (open_[lowest.link] <= kNothing * busy_[lowest.link]) continue;  // all its transfers are settled
      const double level = std::max(0.0, free_[lowest.link]) / open_[lowest.link];
      if (level > lowest.rate * (1 + 1e-12)) {
        queue.push({level, lowest.link});
        continue;
      }
      saturated_[lowest.link] = 1;
      for (Index at = list_first_[lowest.link]; at < list_first_[lowest.link + 1]; ++at) {
        const Index k = list_[at];
        if (rate_[k] >= 0 || left_[k] <= 0) continue;
        rate_[k] = level;
        --unsettled;
        for (Index on = flows_.first[k]; on < flows_.first[k + 1]; ++on) {
          const Index l = flows_.link[on];
          free_[l] -= level * flows_.weight[on];
          open_[l] -= flows_.weight[on];
        }
      }
    }
  }

  // To the end of the last transfer that may end before rates are worked out again.
  void advance(std::vector<double>& finish_s) {
    double soonest = kNever;
    for (const Index k : active_) {
      end_[k] = rate_[k] > 0 ? now_s_ + left_[k] / rate_[k] : kNever;
      soonest = std::min(soonest, end_[k]);
    }
    MOEPLAN_CHECK(std::isfinite(soonest), "a settled transfer moves");
    const double horizon = std::min(soonest + reach_s_, until_most_s_);
    soon_.clear();
    for (const Index k : active_)
      if (end_[k] <= horizon) soon_.push_back(k);
    std::sort(soon_.begin(), soon_.end(),
              [&](Index a, Index b) { return end_[a] != end_[b] ? end_[a] < end_[b] : a < b; });
    double limit = kNever, until = std::min(soonest, until_most_s_);
    std::size_t ended = 0;
    for (; ended < soon_.size(); ++ended) {
      const Index k = soon_[ended];
      if (end_[k] > limit) break;
      until = end_[k];
      for (Index on = flows_.first[k]; on < flows_.first[k + 1]; ++on)
        limit = std::min(limit, lose(flows_.link[on], rate_[k] * flows_.weight[on], until));
      finish_s[k] = until;
    }
    if (ended == soon_.size()) {
      reach_s_ = std::max(2 * reach_s_, tolerance_ * shortest_s_ * 0.1);
    } else if (ended * 4 < soon_.size()) {
      reach_s_ /= 2;
    }
    const double dt = until - now_s_;
    for (Index l = 0; l < lost_.size(); ++l)
      if (saturated_[l] != 0 && extra_[l] > 0) lost_[l] = std::max(0.0, lost_[l] - extra_[l] * dt);
    window_s_ = 2 * std::max(dt, 1e-6 * shortest_s_);
    for (const Index l : losing_) {
      lost_[l] += lost_rate_[l] * until - lost_moment_[l];
      lost_rate_[l] = lost_moment_[l] = 0;
    }
    losing_.clear();
    for (std::size_t i = 0; i < ended; ++i) {
      left_[soon_[i]] = 0;
      const Index k = soon_[i];
      for (Index on = flows_.first[k]; on < flows_.first[k + 1]; ++on) busy_[flows_.link[on]] -= flows_.weight[on];
    }
    const double passed_s = until - now_s_;
    std::size_t kept = 0;
    for (const Index k : active_) {
      if (left_[k] <= 0) continue;
      left_[k] = std::max(left_[k] - rate_[k] * passed_s, 1e-12 * flows_.bytes[k]);
      active_[kept++] = k;
    }
    active_.resize(kept);
    now_s_ = until;
  }

  // A link loses `rate` from `time_s` on; the moment at which it would have lost its share.
  double lose(Index l, double rate, double time_s) {
    if (saturated_[l] == 0) return kNever;  // it had some to spare: what it lacks it can take elsewhere
    if (lost_rate_[l] == 0) losing_.push_back(l);
    lost_rate_[l] += rate;
    lost_moment_[l] += rate * time_s;
    const double share = tolerance_ * flows_.capacity[l];
    // lost + lost_rate t - lost_moment <= share max(t, start); start lets the first ends share a solution
    const double start = 0.05 * shortest_s_;
    const double early = (share * start - lost_[l] + lost_moment_[l]) / lost_rate_[l];
    if (early <= start) return std::max(early, time_s);
    if (lost_rate_[l] <= share) return kNever;
    return std::max(start, (lost_moment_[l] - lost_[l]) / (lost_rate_[l] - share));
  }

  static constexpr double kNothing = 1e-9;  // of a link's transfers: what rounding leaves of them

  const FlowClasses& flows_;
  const double tolerance_;
  std::vector<double> left_, rate_, end_;  // of classes: bytes, bytes/s, when they end
  std::vector<Index> active_, soon_, losing_;
  // Of links: transfers, rate not given away, transfers not settled, rate beyond the capacity.
  std::vector<double> busy_, free_, open_, extra_;
  std::vector<char> saturated_;
  double window_s_ = 0, until_most_s_ = kNever;  // over which losses come back; when these rates must end
  std::vector<double> lost_, lost_rate_, lost_moment_;
  std::vector<Index> list_first_, list_;
  std::size_t listed_ = 0;
  double now_s_ = 0, shortest_s_ = 0, reach_s_ = 0;
};

}  // namespace

void FlowClasses::add(double transfer_bytes, const std::vector<std::pair<std::uint32_t, double>>& links) {
  bytes.push_back(transfer_bytes);
  for (const auto& [number, transfers] : links) {
    link.push_back(number);
    weight.push_back(transfers);
  }
  first.push_back(static_cast<std::uint32_t>(link.size()));
}

FairShare share_fairly(const FlowClasses& flows, double tolerance) {
  MOEPLAN_CHECK(tolerance >= 0, "a share");
  return Sharing(flows, tolerance).run();
}

}  // namespace moeplan::cost
