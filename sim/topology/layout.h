#pragma once
#include <cstdint>
#include <string>
#include <vector>

// How ranks map to parallel groups, in Megatron's order: dense ranks tp-cp-dp-pp (tp fastest), experts etp-ep-edp
// inside a stage.
namespace moeplan::topology {

struct Layout {
  std::int64_t world = 1;
  std::int64_t tp = 1, cp = 1, pp = 1, ep = 1, etp = 1;

  std::int64_t dp() const { return world / (tp * cp * pp); }
  std::int64_t edp() const { return world / (etp * ep * pp); }
  std::int64_t stage_size() const { return world / pp; }  // ranks of one pipeline stage, contiguous

  struct Place {
    std::int64_t tp = 0, cp = 0, dp = 0, pp = 0;  // dense coordinates
    std::int64_t etp = 0, ep = 0, edp = 0;        // expert coordinates
  };
  Place place(std::int64_t rank) const;
  std::int64_t rank_of(std::int64_t tp_index, std::int64_t cp_index, std::int64_t dp_index,
                       std::int64_t pp_index) const;
};

// Groups that communicate. `pp` pairs are not groups: see plan.
enum class GroupKind { tp, ep, dp, edp, stage, world };
// Members in the order of their index in the group; the group that holds `rank`. dp groups span dp x cp (gradients and
// optimizer states are divided over both); `stage` is every rank of the pipeline stage.
std::vector<std::int64_t> group_members(const Layout& layout, GroupKind kind, std::int64_t rank);
// Number of the group of that kind that holds `rank` (0 .. count-1), equal for all members, and how many there are.
std::int64_t group_index(const Layout& layout, GroupKind kind, std::int64_t rank);
std::int64_t group_count(const Layout& layout, GroupKind kind);

// Rules that a layout breaks, as (key, message) with Megatron key names; empty when it is possible. Every rule that
// fails is named with its numbers: tp*cp*pp divides world, etp*ep*pp divides world, all >= 1.
std::vector<std::pair<std::string, std::string>> layout_faults(const Layout& layout);

}  // namespace moeplan::topology
