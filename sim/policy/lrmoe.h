#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "policy/decision.h"

// LRMoE in our own formulation (no paper text is public beyond a summary); docs/models.md, LRMoE. All forward pairs are
// computed; backward keeps the pairs that quotas allow (mode B, re-dispatch).
namespace moeplan::policy {

struct LrmoeSettings {
  double tau = 1.1;             // backward rows of a rank at most tau times the mean
  std::int64_t min_rows = 128;  // q_min: no expert is cut below one GEMM tile
  double min_retained = 0.5;    // rho_min: share of all rows that backward keeps at least
  double score_sigma = 0.5;     // |dy| |x| is log-normal with this sigma where no norms are given
  std::uint64_t seed = 1;
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

// Spreads q_e rows of each expert over its hosts so that the largest rank load is as small as possible: experts by
// increasing number of hosts, rows to the least-loaded host first (water level), ties to the lower member; then rows
// move off the largest member for as long as that lowers the maximum. Returns [expert][index in hosts[e]] rows. Never
// to a member that does not host the expert.
std::vector<std::vector<std::int64_t>> capacity_aware_routing(std::span<const std::int64_t> rows,
                                                              std::span<const std::vector<std::int32_t>> hosts,
                                                              std::int64_t members);

// Row cap per member: floor(tau * mean rows), and at most memory_rows times the decision's chunks (backward holds one
// chunk at a time). memory_rows: rows that a member's free memory can hold in backward at once; 0 leaves what min_rows
// and min_retained demand; kNoMemoryLimit: none is known.
inline constexpr double kNoMemoryLimit = -1;
std::unique_ptr<Policy> make_lrmoe(const LrmoeSettings& settings, double memory_rows);

// Bytes of one retained row alive in backward, mode B: D (h + h + 2g + g + 2g + h).
double redispatch_row_bytes(std::int64_t hidden, std::int64_t expert_ffn, std::int64_t dtype_bytes);

}  // namespace moeplan::policy
