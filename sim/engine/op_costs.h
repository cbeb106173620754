#pragma once
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "plan/plan.h"

namespace moeplan::engine {

// What the ops of a plan take, in picoseconds. What repeats is worked out once: fixed parts by op, parts that rows
// decide by (op, decision), where the plan uses a decision more than once.
class OpCosts {
 public:
  explicit OpCosts(const plan::Plan& plan);

  // A group of ranks that communicate, and which of them are computed (plan.fold).
  struct Group {
    std::int32_t standing = 0;
    std::int64_t index = 0;
    std::vector<std::int64_t> ranks;
    std::vector<std::size_t> places;  // of the standing ones in `ranks`
  };
  const Group& group_of(topology::GroupKind kind, std::int64_t rank);

  std::int64_t issue_ps(const plan::Op& op) const;  // of the host
  std::int64_t sync_ps() const;                     // until the host goes on after what it waited for
  // Of an op that no other rank takes part in.
  std::int64_t local_ps(const plan::Op& op, const plan::Visit& visit, std::int64_t rank);
  // Whether it is the same for all ranks and visits.
  static bool is_fixed(const plan::Op& op) { return op.work == plan::Work::fixed; }
  // Of each rank of the group that meets in a collective or exchange. Valid until the next call.
  std::span<const std::int64_t> group_ps(const plan::Op& op, const plan::Visit& visit, std::int64_t rank,
                                         const Group& group);
  std::int64_t send_ps(const plan::Op& op, std::int64_t from, std::int64_t to) const;

  // Decides what ops of the visit take on a rank, beside the op; null: nothing but the op does.
  const policy::LayerDecision* decision(const plan::Visit& visit, std::int64_t rank) const;
  bool decisions_repeat() const { return repeat_; }

 private:
  struct Key {
    const plan::Op* op;
    const policy::LayerDecision* decision;
    std::int64_t which;  // member of the expert group, or number of the group
    bool operator==(const Key&) const = default;
  };
  struct Hash {
    std::size_t operator()(const Key& key) const;
  };
  double local_s(const plan::Op& op, const plan::Visit& visit, std::int64_t rank) const;
  void price(const plan::Op& op, const plan::Visit& visit, std::int64_t rank, const Group& group);
  void price_exchange(const plan::Op& op, const plan::Visit& visit, std::int64_t rank, const Group& group);
  double collective_s(const plan::Op& op, std::int64_t bytes, std::span<const std::int64_t> ranks);

  const plan::Plan& plan_;
  bool repeat_ = false;
  std::int64_t sync_ps_ = 0;
  std::map<std::pair<int, std::int64_t>, Group> groups_;
  std::unordered_map<Key, std::int64_t, Hash> local_;
  std::unordered_map<Key, std::vector<std::int64_t>, Hash> group_;
  std::map<std::tuple<int, std::int64_t, std::int64_t, std::int64_t>, double> collective_memo_;
  std::vector<std::int64_t> matrix_, scratch_;
  std::vector<double> finish_;
};

}  // namespace moeplan::engine
