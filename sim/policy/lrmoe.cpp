#include "policy/lrmoe.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>

#include "base/check.h"
#include "policy/index.h"
#include "policy/placement.h"
#include "policy/replicate.h"
#include "policy/selection.h"

namespace moeplan::policy {
namespace {

// Rows of each expert over all chunks. At home the instances stand in the order of the experts.
std::vector<std::int64_t> expert_rows(const LayerDecision& decision, std::int64_t experts) {
  std::vector<std::int64_t> counts(at(experts), 0);
  for (const RoutedRows& rows : decision.forward_rows) {
    MOEPLAN_CHECK(rows.instance_rows.size() == counts.size(), "experts live at home");
    for (std::size_t expert = 0; expert < counts.size(); ++expert) counts[expert] += rows.instance_rows[expert];
  }
  return counts;
}

// Sums over the sources.
std::vector<std::int64_t> sums_of(std::span<const std::int64_t> counts, std::int64_t experts) {
  std::vector<std::int64_t> sums(at(experts), 0);
  for (std::size_t i = 0; i < counts.size(); ++i) sums[i % sums.size()] += counts[i];
  return sums;
}

// floor of a row limit that may be beyond any count of rows
std::int64_t floor_rows(double rows) {
  constexpr double kMost = 9.0e18;
  return rows >= kMost ? std::numeric_limits<std::int64_t>::max() : static_cast<std::int64_t>(std::floor(rows));
}

class Lrmoe : public Policy {
 public:
  Lrmoe(const LrmoeSettings& settings, double memory_rows, const ReplicaCosts& costs)
      : settings_(settings), memory_rows_(memory_rows), costs_(costs) {
    // Mode A selects before there is a gradient: the router weight alone is known.
    if (kept()) settings_.score_sigma = 0;
  }

  std::string name() const override { return "lrmoe"; }

  void apply(GroupContext& context, LayerDecision& decision) const override {
    const std::int64_t members = context.members();
    const bool replicates = settings_.replicas == LrmoeSettings::Replicas::greedy && members > 1;
    std::vector<std::int64_t> routed;  // [source * experts + e], where the decision's rows do not tell
    if (replicates || decision.padded) routed = chunk_counts(context, 0, 1);
    const std::vector<std::int64_t> counts =
        routed.empty() ? expert_rows(decision, context.experts) : sums_of(routed, context.experts);
    const std::int64_t total = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});

    RowCaps caps;
    caps.compute_rows = floor_rows(settings_.tau * static_cast<double>(total) / static_cast<double>(members));
    // What backward sends again it holds for one chunk at a time; what forward keeps it holds for all.
    const double at_once = kept() ? 1.0 : static_cast<double>(decision.chunks);
    caps.memory_rows = memory_rows_ < 0 ? kNoMemoryLimit : memory_rows_ * at_once;
    caps.instance_rows = costs_.instance_rows * at_once;

    const Hosts hosts = replicates ? replicate_greedily(routed, members, settings_, costs_, caps)
                                   : home_hosts(members, context.experts);
    const std::vector<std::int64_t> row_caps = caps.of(extra_instances_of(hosts, members));
    const Quotas quotas = water_fill(counts, hosts, row_caps, settings_.min_rows, settings_.min_retained);
    const Selection selection = select_pairs(context, settings_, counts, quotas, hosts, decision.chunks);

    decision.backward_rows.clear();
    const std::vector<std::int64_t> levels = cap_levels(row_caps, total);
    for (const std::vector<std::int64_t>& chunk : selection.counts)
      decision.backward_rows.push_back(place_on_hosts(chunk, hosts, members, costs_.members_per_node, levels));
    decision.replicas = replica_matrix(hosts, members);
    decision.plan_placement = replicates;
    if (!decision.replicas.empty()) place_forward(context, hosts, selection, decision);
    decision.backward = kept() ? RoutedBackward::kept_retained : RoutedBackward::redispatch;
    decision.select = true;
    decision.retained_rows = selection.retained_rows;
    decision.retained_score = selection.retained_score;
    decision.total_score = selection.total_score;
  }

 private:
  bool kept() const { return settings_.mode == LrmoeSettings::Mode::kept; }

  void place_forward(const GroupContext& context, const Hosts& hosts, const Selection& selection,
                     LayerDecision& decision) const {
    const std::int64_t members = context.members();
    std::vector<std::int64_t> received(at(members), 0);
    for (std::size_t chunk = 0; chunk < decision.forward_rows.size(); ++chunk) {
      std::vector<std::int64_t> counts = forward_counts(context, static_cast<std::int64_t>(chunk), decision.chunks);
      RoutedRows& rows = decision.forward_rows[chunk];
      if (kept()) {
        // Backward works where forward did: retained rows are placed first, the others around them.
        const RoutedRows& retained = decision.backward_rows[chunk];
        std::vector<std::int64_t> held(at(members));
        for (std::int64_t member = 0; member < members; ++member) held[at(member)] = retained.received(member);
        // Padding is cut evenly over chunks whatever pairs they hold, and may leave a chunk less than it retains.
        for (std::size_t i = 0; i < counts.size(); ++i)
          counts[i] = std::max<std::int64_t>(0, counts[i] - selection.counts[chunk][i]);
        rows = sum_of(retained, place_on_hosts(counts, hosts, members, costs_.members_per_node, held));
      } else {
        rows = place_on_hosts(counts, hosts, members, costs_.members_per_node);
      }
      for (std::int64_t member = 0; member < members; ++member) received[at(member)] += rows.received(member);
    }
    decision.max_received = static_cast<double>(*std::max_element(received.begin(), received.end()));
  }

  LrmoeSettings settings_;
  double memory_rows_;
  ReplicaCosts costs_;
};

}  // namespace

std::unique_ptr<Policy> make_lrmoe(const LrmoeSettings& settings, double memory_rows, const ReplicaCosts& costs) {
  return std::make_unique<Lrmoe>(settings, memory_rows, costs);
}

double kept_row_bytes(std::int64_t hidden, std::int64_t expert_ffn, std::int64_t dtype_bytes) {
  return static_cast<double>(dtype_bytes) * static_cast<double>(hidden + 3 * expert_ffn);
}

double redispatch_row_bytes(std::int64_t hidden, std::int64_t expert_ffn, std::int64_t dtype_bytes) {
  // x, dy and dx of the row; both halves of the first projection, its activated product, and the gradient of both
  // halves.
  const std::int64_t columns = 3 * hidden + 5 * expert_ffn;
  return static_cast<double>(dtype_bytes) * static_cast<double>(columns);
}

}  // namespace moeplan::policy
