#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "policy/lrmoe.h"
#include "policy/placement.h"

// Greedy replication for LRMoE (our formulation; docs/models.md, LRMoE: instances).
namespace moeplan::policy {

// Rows that a member may keep for backward, given the extra instances that it hosts.
struct RowCaps {
  std::int64_t compute_rows = 0;  // floor(tau * mean)
  double memory_rows = -1;        // negative: no limit known
  double instance_rows = 0;       // that each extra instance takes of them
  bool limited() const { return memory_rows >= 0; }
  bool admits(std::int64_t extra) const;  // memory holds that many extra instances
  std::vector<std::int64_t> of(std::span<const std::int64_t> extra_instances) const;
};

// Starts from home and adds one instance at a time. Candidates: experts that are cut, or that stand on a member with
// the largest load of forward or backward; first the one with the most retained, then the most routed rows an instance.
// Its new host: the member with the least time of rows that still has a slot and memory; ties: the node of the expert's
// largest source, then the lower member. Accepted where
//   forward_row_s * fall of the largest forward load + backward_row_s * fall of the largest backward load
// exceeds the time to send weights (once, in mode B twice) and return gradients, and where the group retains no fewer
// rows (the memory that the instance takes counts). Ends when none of the first four candidates is accepted.
// counts: rows [source * experts + e]. Deterministic.
Hosts replicate_greedily(std::span<const std::int64_t> counts, std::int64_t members, const LrmoeSettings& settings,
                         const ReplicaCosts& costs, const RowCaps& caps);

// Extra instances by member.
std::vector<std::int64_t> extra_instances_of(const Hosts& hosts, std::int64_t members);

}  // namespace moeplan::policy
