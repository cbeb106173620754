#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "policy/decision.h"

// LRMoE in our own formulation (no paper text is public beyond a summary); docs/models.md, LRMoE. All forward pairs are
// computed; backward keeps the pairs that quotas allow.
namespace moeplan::policy {

using HostLists = std::span<const std::vector<std::int32_t>>;  // of each expert, the members that hold it

struct LrmoeSettings {
  // B: backward sends inputs and output gradients of the retained pairs again. A: pairs are selected in forward by
  // their router weight alone, their activations stay where they were computed, backward sends output gradients.
  enum class Mode { redispatch, kept };
  Mode mode = Mode::redispatch;
  double tau = 1.1;             // backward rows of a rank at most tau times the mean
  std::int64_t min_rows = 128;  // q_min: no expert is cut below one GEMM tile
  double min_retained = 0.5;    // rho_min: share of all rows that backward keeps at least
  double score_sigma = 0.5;     // |dy| |x| is log-normal with this sigma where no norms are given
  std::uint64_t seed = 1;
  enum class Replicas { none, greedy };  // greedy: hot experts get instances on other members (replicate.h)
  Replicas replicas = Replicas::none;
  std::int64_t max_instances = 1;  // that a member may host beside its own experts, in one layer and microbatch
};

// What an extra instance of an expert costs and brings; the plan knows. All zero: instances are free.
struct ReplicaCosts {
  double forward_row_s = 0, backward_row_s = 0;  // device time of one row more on the busiest member
  double weight_bytes = 0, gradient_bytes = 0;   // of one expert
  double bytes_per_s = 0;                        // between two members; 0: transfers take no time
  double instance_rows = 0;                      // rows whose memory one instance takes
  std::int64_t members_per_node = 0;             // consecutive members on one node; 0: all on one
};

// Quotas by water-filling: q_e = min(n_e, max(theta |R_e|, min_rows)) with the largest whole theta for which every
// member's rows (an expert's rows spread over its hosts by capacity_aware_routing) stay within its cap. Where the caps
// leave the group less than min_retained of all rows, the lowest caps are first lifted to the common level that gives
// them that share (the floor wins over the cap); a member that min_rows alone puts above its cap takes those rows. One
// theta serves all members, so some are left with room: rows that they may still take of their cut experts. Rows plus
// room hold at least min_retained of all rows. hosts[e]: members that hold an instance of e, home first. Deterministic;
// O(E log n) with one host an expert.
struct Quotas {
  std::vector<std::int64_t> rows;  // q_e
  std::vector<std::int64_t> room;  // by member: cut rows that still fit under its cap
  double theta = 0;
  bool floor_binds = false;  // min_retained or min_rows forced some rank above its cap
};
Quotas water_fill(std::span<const std::int64_t> counts, std::span<const std::vector<std::int32_t>> hosts,
                  std::span<const std::int64_t> row_cap, std::int64_t min_rows, double min_retained);

// Where caps differ, a member with a lower cap counts as filled by the difference: levels [member] to route `total`
// rows with, so that the smallest largest load is one that meets the caps where any routing does.
std::vector<std::int64_t> cap_levels(std::span<const std::int64_t> row_cap, std::int64_t total);

// Spreads q_e rows of each expert over its hosts so that the largest rank load is as small as possible: experts by
// increasing number of hosts, rows to the least-loaded host first (water level), ties to the lower member; then rows
// move off the largest member for as long as that lowers the maximum. Returns [expert][index in hosts[e]] rows. Never
// to a member that does not host the expert.
// held: rows that each member has already (empty: none), counted in the loads that are levelled.
std::vector<std::vector<std::int64_t>> capacity_aware_routing(std::span<const std::int64_t> rows, HostLists hosts,
                                                              std::int64_t members,
                                                              std::span<const std::int64_t> held = {});

// Memory rows where no limit is known.
inline constexpr double kNoMemoryLimit = -1;

// Row cap per member: floor(tau * mean rows), and at most its memory rows: memory_rows (that a member's free memory can
// hold at once; 0 leaves what min_rows and min_retained demand) less costs.instance_rows for each extra instance, in
// mode B times the decision's chunks (backward holds one chunk at a time). Needs rows placed at home. Room that
// water_fill leaves on a member goes to the pairs of its cut experts with the largest scores; within an expert the
// pairs with the largest scores are kept, ties to the lower source, token, expert.
std::unique_ptr<Policy> make_lrmoe(const LrmoeSettings& settings, double memory_rows, const ReplicaCosts& costs = {});

// Bytes of one retained row alive in backward, mode B: D (h + h + 2g + g + 2g + h).
double redispatch_row_bytes(std::int64_t hidden, std::int64_t expert_ffn, std::int64_t dtype_bytes);
// Bytes of one retained row that mode A holds from forward to backward: D (h + 2g + g).
double kept_row_bytes(std::int64_t hidden, std::int64_t expert_ffn, std::int64_t dtype_bytes);

}  // namespace moeplan::policy
