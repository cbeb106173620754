#include "policy/capacity.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

#include "base/check.h"
#include "policy/index.h"
#include "policy/pair_key.h"
#include "policy/select_key.h"

namespace moeplan::policy {
namespace {

using DropPolicy = CapacitySettings::DropPolicy;

Key key_of(const routing::Pair& pair, std::int64_t token, DropPolicy drop) {
  return make_key(drop == DropPolicy::probs ? std::fabs(pair.weight) : 0.0f, token);
}

// The loads of one group without the pairs that its sources drop. Slices must lie inside one source.
class KeptLoads : public routing::LoadSource {
 public:
  KeptLoads(const GroupContext& context, DropPolicy drop)
      : inner_(*context.loads),
        held_(context.kept_loads),
        sources_(context.sources),
        experts_(context.experts),
        drop_(drop),
        lowest_(at(context.members() * context.experts), kKeepAll),
        cuts_(sources_.size(), false) {}

  // Keeps the `capacity` best pairs of each expert of a source.
  void cut(std::int64_t member, std::int64_t capacity, const routing::TokenSlice& whole, std::int64_t layer) {
    std::vector<routing::Pair> pairs;
    inner_.pairs(whole, layer, pairs);
    std::vector<std::vector<Key>> keys(at(experts_));
    for (const routing::Pair& pair : pairs) keys[pair.expert].push_back(key_of(pair, pair.token, drop_));
    for (std::int64_t expert = 0; expert < experts_; ++expert) {
      if (keys[at(expert)].size() <= at(capacity)) continue;
      lowest_[at(member * experts_ + expert)] = capacity == 0 ? kKeepNone : select_key(keys[at(expert)], at(capacity));
    }
    cuts_[at(member)] = true;
  }

  const routing::StepShape& shape() const override { return inner_.shape(); }
  bool has_weights() const override { return inner_.has_weights(); }
  Description describe() const override { return inner_.describe(); }

  void add_counts(const routing::TokenSlice& slice, std::int64_t layer, std::span<std::int64_t> out) const override {
    if (!cuts_[source_of(slice)]) return inner_.add_counts(slice, layer, out);
    std::vector<routing::Pair> list;
    pairs(slice, layer, list);
    for (const routing::Pair& pair : list) ++out[pair.expert];
  }

  void pairs(const routing::TokenSlice& slice, std::int64_t layer, std::vector<routing::Pair>& out) const override {
    inner_.pairs(slice, layer, out);
    const std::size_t member = source_of(slice);
    if (!cuts_[member]) return;
    const std::int64_t first = (slice.begin - sources_[member].begin) * shape().micro_batch_size;
    const Key* lowest = lowest_.data() + member * at(experts_);
    std::erase_if(
        out, [&](const routing::Pair& pair) { return key_of(pair, first + pair.token, drop_) < lowest[pair.expert]; });
  }

 private:
  std::size_t source_of(const routing::TokenSlice& slice) const {
    for (std::size_t i = 0; i < sources_.size(); ++i) {
      const GroupContext::Source& source = sources_[i];
      if (source.replica == slice.replica && source.begin <= slice.begin && slice.end <= source.end) return i;
    }
    MOEPLAN_CHECK(false, "a slice lies inside one source of its group");
    return 0;
  }

  const routing::LoadSource& inner_;
  std::shared_ptr<const routing::LoadSource> held_;  // keeps inner_ alive where it is such a view itself
  std::vector<GroupContext::Source> sources_;
  std::int64_t experts_;
  DropPolicy drop_;
  std::vector<Key> lowest_;  // [source * experts + e]: what is below is dropped
  std::vector<char> cuts_;   // by source: it drops something
};

class Capacity : public Policy {
 public:
  explicit Capacity(const CapacitySettings& settings) : settings_(settings) {}

  std::string name() const override { return "capacity"; }

  void apply(GroupContext& context, LayerDecision& decision) const override {
    MOEPLAN_CHECK(decision.chunks == 1, "capacity comes before the policies that cut chunks");
    const std::vector<std::int64_t> counts = chunk_counts(context, 0, 1);
    auto loads = std::make_shared<KeptLoads>(context, settings_.drop_policy);
    std::vector<std::int64_t> capacities, kept = counts;
    std::int64_t dropped = 0, total = 0;
    for (std::int64_t member = 0; member < context.members(); ++member) {
      const GroupContext::Source& source = context.sources[at(member)];
      const std::int64_t tokens = (source.end - source.begin) * context.loads->shape().micro_batch_size;
      const std::int64_t capacity = expert_capacity(settings_.factor, tokens, context.top_k, context.experts);
      capacities.push_back(capacity);
      const std::int64_t before = dropped;
      for (std::int64_t expert = 0; expert < context.experts; ++expert) {
        std::int64_t& rows = kept[at(member * context.experts + expert)];
        dropped += std::max<std::int64_t>(0, rows - capacity);
        rows = std::min(rows, capacity);
        total += rows;
      }
      if (dropped > before) {
        loads->cut(member, capacity, {context.iteration, context.microbatch, source.replica, source.begin, source.end},
                   context.moe_layer);
      }
    }
    if (dropped > 0) {
      context.loads = loads.get();
      context.kept_loads = std::move(loads);
    }
    if (settings_.pad) context.padded_rows = std::move(capacities);

    decision.padded = settings_.pad;
    decision.dropped_rows = static_cast<double>(dropped);
    decision.routed_rows = decision.retained_rows = static_cast<double>(total);
    RoutedRows& rows = decision.forward_rows.front();
    rows = place_at_home(settings_.pad ? forward_counts(context, 0, 1) : kept, context.members(), context.experts);
    decision.padding_rows = static_cast<double>(rows.total() - total);
    std::int64_t most = 0;
    for (std::int64_t member = 0; member < rows.members; ++member) most = std::max(most, rows.received(member));
    decision.max_received = static_cast<double>(most);
  }

 private:
  CapacitySettings settings_;
};

}  // namespace

std::int64_t expert_capacity(double factor, std::int64_t tokens, std::int64_t top_k, std::int64_t experts) {
  // In Megatron's order of operations, so that the same double is rounded up.
  const double rows = std::ceil(static_cast<double>(tokens * top_k) / static_cast<double>(experts) * factor);
  return rows < static_cast<double>(tokens) ? static_cast<std::int64_t>(rows) : tokens;
}

std::unique_ptr<Policy> make_capacity(const CapacitySettings& settings) { return std::make_unique<Capacity>(settings); }

}  // namespace moeplan::policy
