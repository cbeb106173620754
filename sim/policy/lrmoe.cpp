#include "policy/lrmoe.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <limits>
#include <numeric>

#include "base/check.h"
#include "policy/selection.h"

namespace moeplan::policy {
namespace {

std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

// Members that hold an instance of each expert: its home alone.
std::vector<std::vector<std::int32_t>> home_hosts(std::int64_t members, std::int64_t experts) {
  std::vector<std::vector<std::int32_t>> hosts(at(experts));
  for (std::int64_t expert = 0; expert < experts; ++expert)
    hosts[at(expert)] = {static_cast<std::int32_t>(expert / (experts / members))};
  return hosts;
}

// Rows of each expert over all chunks. At home the instances stand in the order of the experts.
std::vector<std::int64_t> expert_rows(const LayerDecision& decision, std::int64_t experts) {
  std::vector<std::int64_t> counts(at(experts), 0);
  for (const RoutedRows& rows : decision.forward_rows) {
    MOEPLAN_CHECK(rows.instance_rows.size() == counts.size(), "experts live at home");
    for (std::size_t expert = 0; expert < counts.size(); ++expert) counts[expert] += rows.instance_rows[expert];
  }
  return counts;
}

// floor of a row limit that may be beyond any count of rows
std::int64_t floor_rows(double rows) {
  constexpr double kMost = 9.0e18;
  return rows >= kMost ? std::numeric_limits<std::int64_t>::max() : static_cast<std::int64_t>(std::floor(rows));
}

class Lrmoe : public Policy {
 public:
  Lrmoe(const LrmoeSettings& settings, double memory_rows) : settings_(settings), memory_rows_(memory_rows) {}

  std::string name() const override { return "lrmoe"; }

  void apply(const GroupContext& context, LayerDecision& decision) const override {
    const std::int64_t members = context.members();
    const std::vector<std::int64_t> counts = expert_rows(decision, context.experts);
    const std::int64_t total = std::accumulate(counts.begin(), counts.end(), std::int64_t{0});

    std::int64_t cap = floor_rows(settings_.tau * static_cast<double>(total) / static_cast<double>(members));
    if (memory_rows_ >= 0) cap = std::min(cap, floor_rows(memory_rows_ * static_cast<double>(decision.chunks)));
    const std::vector<std::int64_t> caps(at(members), cap);
    const Quotas quotas =
        water_fill(counts, home_hosts(members, context.experts), caps, settings_.min_rows, settings_.min_retained);

    const Selection selection = select_pairs(context, settings_, counts, quotas, decision.chunks);
    decision.backward_rows.clear();
    for (const std::vector<std::int64_t>& chunk : selection.counts)
      decision.backward_rows.push_back(place_at_home(chunk, members, context.experts));
    decision.backward = RoutedBackward::redispatch;
    decision.select = true;
    decision.retained_rows = selection.retained_rows;
    decision.retained_score = selection.retained_score;
    decision.total_score = selection.total_score;
  }

 private:
  LrmoeSettings settings_;
  double memory_rows_;
};

}  // namespace

std::unique_ptr<Policy> make_lrmoe(const LrmoeSettings& settings, double memory_rows) {
  return std::make_unique<Lrmoe>(settings, memory_rows);
}

double redispatch_row_bytes(std::int64_t hidden, std::int64_t expert_ffn, std::int64_t dtype_bytes) {
  // x, dy and dx of the row; both halves of the first projection, its activated product, and the gradient of both
  // halves.
  const std::int64_t columns = 3 * hidden + 5 * expert_ffn;
  return static_cast<double>(dtype_bytes) * static_cast<double>(columns);
}

}  // namespace moeplan::policy
