#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

// How ranks map to parallel groups, in Megatron's default order tp-cp-ep-dp-pp: dense ranks tp, cp, dp, pp (tp
// fastest), experts etp, ep, edp, pp. Both leave pp slowest, so the ranks of a stage are contiguous and the same for
// both.
namespace moeplan::topology {

struct Layout {
  std::int64_t world = 1;
  std::int64_t tp = 1, cp = 1, pp = 1, ep = 1, etp = 1;
  std::int64_t vpp = 1;  // virtual stages a rank (interleaved schedule); moves no rank

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

// Groups that communicate. `pp` is one pipeline column: the ranks that pass activations to each other, one a stage.
// `dp` spans dp x cp (gradients and optimizer states are divided over both; Megatron's "dp-cp"), `dp_only` is its part
// with one cp coordinate (samples are divided over it). `etp_ep` is Megatron's "tp-ep" of experts: the ranks among
// which the allgather dispatcher gathers, and that hold a whole set of experts. `stage` is every rank of a pipeline
// stage. `mirror` is the rank itself and the one as far from the last stage as it is from the first: both hold the same
// two stages under DualPipe (an even number of stages).
enum class GroupKind { tp, ep, dp, edp, stage, world, cp, dp_only, etp, etp_ep, pp, mirror, dp_cp = dp };
inline constexpr std::size_t kGroupKinds = 11;     // values 0 .. 10: those of every layout
inline constexpr std::size_t kAllGroupKinds = 12;  // with mirror

// Members in the order of their index in the group; the group that holds `rank`.
std::vector<std::int64_t> group_members(const Layout& layout, GroupKind kind, std::int64_t rank);
// Number of the group of that kind that holds `rank` (0 .. count-1), equal for all members; how many groups there are;
// members of each.
std::int64_t group_index(const Layout& layout, GroupKind kind, std::int64_t rank);
std::int64_t group_count(const Layout& layout, GroupKind kind);
std::int64_t group_size(const Layout& layout, GroupKind kind);

// All groups of all kinds as text, one group a line under a heading a kind. Long groups are shortened to
// "first step .. last".
std::string groups_text(const Layout& layout);

// Rules that a layout breaks, as (key, message) with Megatron key names; empty when it is possible. Every rule that
// fails is named with its numbers: tp*cp*pp divides world, etp*ep*pp divides world, virtual stages need more than one
// stage, all >= 1. Rules that take in layers, heads, experts or the sequence are the scenario's.
std::vector<std::pair<std::string, std::string>> layout_faults(const Layout& layout);

}  // namespace moeplan::topology
