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

class ExchangeFactors;

// What the ops of a plan take, in picoseconds. What repeats is worked out once: by (shape of the op, decision) where
// rows decide, for all members of an expert group together.
class OpCosts {
 public:
  // `factors`: exchanges take as much longer; null: as by their ports.
  explicit OpCosts(const plan::Plan& plan, const ExchangeFactors* factors = nullptr);

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
  // The same for every member of the rank's expert group; its expert tensor parallel peers are as the member.
  std::span<const std::int64_t> member_ps(const plan::Op& op, const plan::Visit& visit, std::int64_t rank);
  // Whether rows decide what it takes.
  static bool by_rows(const plan::Op& op);
  // Of each rank of the group that meets in a collective or exchange. Valid until the next call.
  std::span<const std::int64_t> group_ps(const plan::Op& op, const plan::Visit& visit, std::int64_t rank,
                                         const Group& group);
  std::int64_t send_ps(const plan::Op& op, std::int64_t from, std::int64_t to) const;

  // Decides what ops of the visit take on a rank, beside the op; null: nothing but the op does.
  const policy::LayerDecision* decision(const plan::Visit& visit, std::int64_t rank) const;
  bool decisions_repeat() const { return repeat_; }

 private:
  // Ops that are priced alike have one number, so that what one of them takes is known for all.
  struct Shape {
    plan::Work work;
    topology::GroupKind group;
    cost::GemmPass pass;
    cost::Precision precision;
    cost::MemoryAccess access;
    plan::Rows::Kind rows;
    std::int16_t chunk;
    bool backward, towards_source, once_per_rank;
    std::uint16_t launches;
    std::int64_t n, k, bytes, bytes_per_row;
    auto operator<=>(const Shape&) const = default;
  };
  std::int64_t shape_of(const plan::Op& op);
  struct Key {
    std::int64_t what;  // number of a shape, or of an op behind all shapes
    const policy::LayerDecision* decision;
    std::int64_t group;
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
  const ExchangeFactors* factors_ = nullptr;
  bool repeat_ = false;
  std::int64_t sync_ps_ = 0;
  std::map<std::pair<int, std::int64_t>, Group> groups_;
  std::map<Shape, std::int64_t> shapes_;
  std::unordered_map<const plan::Op*, std::int64_t> shape_of_op_;
  std::unordered_map<Key, std::vector<std::int64_t>, Hash> local_, exchange_;
  std::map<std::pair<const plan::Op*, std::int64_t>, std::vector<std::int64_t>> collective_;
  std::map<std::tuple<int, std::int64_t, std::int64_t, std::int64_t>, double> collective_memo_;
  std::vector<std::int64_t> matrix_, scratch_, members_;
  std::vector<double> finish_;
};

}  // namespace moeplan::engine
