#pragma once
#include <cstdint>
#include <span>

#include "cost/collectives.h"
#include "topology/cluster.h"
#include "topology/hardware.h"

// Expert dispatchers other than the all-to-all of whole rows (docs/models.md, Dispatch kernels).
namespace moeplan::cost {

// Expected number of distinct ranks that the top_k distinct experts of a token live on, when `experts` are divided
// evenly over `ranks` and every set is equally likely: n (1 - C(E - E/n, k) / C(E, k)). Also of nodes or domains.
// Co-activation of experts hardly moves it. 1 <= ranks <= experts, 0 <= top_k <= experts.
double distinct_ranks(double experts, double ranks, double top_k);

// Kernels that send a token's row once to each rank, and once to each domain over NICs (DeepEP, HybridEP).
struct DispatchKernel {
  double row_bytes = 0;  // of one token: 2 hidden, or hidden + hidden / 32 with fp8 and its scales
  double experts = 0, top_k = 0;
  std::int64_t sms = 0;  // multiprocessors of the kernel; 0: dispatch.sms of the profile
  bool combine = false;  // rows go back to the ranks of their tokens
};
bool has_dispatch_kernels(const topology::HardwareProfile& profile);  // the profile states dispatch.*

// rows[i * P + j]: routed rows (token and expert pairs) that tokens of member i have on experts of member j, in both
// directions of travel. Rows are deduplicated in the mean, by distinct_ranks / top_k. Fills the seconds of each member.
// Needs has_dispatch_kernels.
void dispatch_finish(const DispatchKernel& kernel, std::span<const std::int64_t> rows,
                     std::span<const std::int64_t> ranks, const topology::Cluster& cluster,
                     const topology::HardwareProfile& profile, std::span<double> finish_s);
// As above with what binds: "dispatch kernel of rank 3" (or combine), "nic send of rank 12", "nic receive of rank 12".
AllToAllTime dispatch_time(const DispatchKernel& kernel, std::span<const std::int64_t> rows,
                           std::span<const std::int64_t> ranks, const topology::Cluster& cluster,
                           const topology::HardwareProfile& profile);
// The longest under fair sharing of the NICs, and of uplinks where they block: never below dispatch_time.
double dispatch_fair_time_s(const DispatchKernel& kernel, std::span<const std::int64_t> rows,
                            std::span<const std::int64_t> ranks, const topology::Cluster& cluster,
                            const topology::HardwareProfile& profile);
// The longest of them.
double dispatch_time_s(const DispatchKernel& kernel, std::span<const std::int64_t> rows,
                       std::span<const std::int64_t> ranks, const topology::Cluster& cluster,
                       const topology::HardwareProfile& profile);

// The allgather dispatcher: every rank of the group (GroupKind::etp_ep) gets the rows of all, and sums come back by a
// reduce-scatter (combine). `tokens`: of one member, the same for all (Megatron pads to the largest).
double allgather_dispatch_time_s(double tokens, double row_bytes, bool combine, std::span<const std::int64_t> ranks,
                                 const topology::Cluster& cluster, const topology::HardwareProfile& profile);

}  // namespace moeplan::cost
