#pragma once
#include <cstdint>

#include "plan/plan.h"

namespace moeplan::plan {

// Plan::rows and Plan::bytes of one rank, for those who ask many times: what depends on the rank alone is worked out
// once.
class RankRows {
 public:
  RankRows(const Plan& plan, std::int64_t rank)
      : plan_(plan),
        member_(plan.member_of(rank)),
        groups_(plan.groups_per_stage()),
        group_(plan.group_of(rank) % groups_),
        microbatches_(plan.scenario->microbatches()) {}

  std::int64_t rows(const Rows& which, const Visit& visit) const {
    if (which.kind == Rows::Kind::none) return 0;
    return of_decision(which, visit.moe_layer * microbatches_ + visit.microbatch);
  }
  std::int64_t bytes(const Size& size, const Visit& visit) const {
    return size.bytes + (size.bytes_per_row == 0 ? 0 : size.bytes_per_row * rows(size.rows, visit));
  }

 private:
  std::int64_t of_decision(const Rows& which, std::int64_t place) const;

  const Plan& plan_;
  std::int64_t member_, groups_, group_, microbatches_;
};

}  // namespace moeplan::plan
