#include "policy/memfine.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace moeplan::policy {
namespace {

class Memfine : public Policy {
 public:
  Memfine(MemfineSettings settings, double max_rows) : settings_(std::move(settings)), max_rows_(max_rows) {}

  std::string name() const override { return "memfine"; }

  void apply(GroupContext& context, LayerDecision& decision) const override {
    // Collectives need one count for the whole group, so the member with the most rows decides.
    std::int64_t chunks = settings_.rule == MemfineSettings::Rule::fixed
                              ? settings_.chunks
                              : adaptive_chunks(decision.max_received, max_rows_, settings_.bins);
    for (const GroupContext::Source& source : context.sources) chunks = std::min(chunks, source.end - source.begin);
    chunks = std::max<std::int64_t>(chunks, 1);

    if (chunks != decision.chunks) {
      decision.forward_rows.clear();
      for (std::int64_t chunk = 0; chunk < chunks; ++chunk) {
        decision.forward_rows.push_back(
            place_at_home(forward_counts(context, chunk, chunks), context.members(), context.experts));
      }
    }
    decision.chunks = chunks;
    decision.backward = RoutedBackward::recompute;
    decision.layer_notify = true;
  }

 private:
  MemfineSettings settings_;
  double max_rows_;
};

}  // namespace

std::int64_t adaptive_chunks(double rows, double max_rows, std::span<const std::int64_t> bins) {
  MOEPLAN_CHECK(!bins.empty() && std::is_sorted(bins.begin(), bins.end()), "bins ascend");
  if (!(max_rows > 0)) return bins.back();
  // ceil(x) <= bin is the same as x <= bin for a whole bin, and x may be beyond any integer type.
  const double needed = rows / max_rows;
  for (const std::int64_t bin : bins) {
    if (needed <= static_cast<double>(bin)) return bin;
  }
  return bins.back();
}

std::unique_ptr<Policy> make_memfine(const MemfineSettings& settings, double max_rows) {
  return std::make_unique<Memfine>(settings, max_rows);
}

}  // namespace moeplan::policy
