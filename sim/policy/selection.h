#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "policy/decision.h"
#include "policy/lrmoe.h"
#include "policy/placement.h"

// The selection of LRMoE: which pairs of a layer backward keeps, given quotas.
namespace moeplan::policy {

struct Selection {
  std::vector<std::vector<std::int64_t>> counts;  // by chunk: retained pairs [source * experts + e]
  double retained_rows = 0;
  double retained_score = 0, total_score = 0;
};

// Of each expert with quota q_e below its count n_e the q_e pairs with the largest score (router weight times token
// norm) over all sources of the group; then, by member, the `room` best pairs among those its cut experts lost. Ties:
// lower source, then token, then expert. An expert with several hosts takes room on each of them. counts: n_e, equal to
// what the load source gives.
Selection select_pairs(const GroupContext& context, const LrmoeSettings& settings, std::span<const std::int64_t> counts,
                       const Quotas& quotas, const Hosts& hosts, std::int64_t chunks);

}  // namespace moeplan::policy
