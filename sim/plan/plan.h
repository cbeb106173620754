#pragma once
#include <cstdint>
#include <memory>
#include <vector>

#include "plan/blocks.h"
#include "plan/op.h"
#include "plan/static_memory.h"
#include "policy/decision.h"
#include "scenario/scenario.h"
#include "schedule/schedule.h"
#include "topology/cluster.h"

// The programs of all ranks for one iteration: blocks visited in order. Ranks of one EP group share a program; they
// differ in their row counts alone, which the decisions hold.
namespace moeplan::plan {

// Two microbatches under way together, one in forward and one in backward: each waits for its own communication only.
enum class Lane : std::uint8_t { alone, forward, backward };

// A block in one direction, or a part of its ops where two microbatches take turns.
struct Visit {
  std::int32_t block = 0;
  schedule::Direction direction = schedule::Direction::forward;
  std::int32_t slot = 0;        // position of the block in its stage: with the microbatch, the identity of its tensors
  std::int32_t layer = -1;      // global layer, -1 for the other blocks
  std::int32_t moe_layer = -1;  // among the MoE layers
  std::int32_t microbatch = 0;
  std::uint32_t first_op = 0, end_op = kAllOps;
  Lane lane = Lane::alone;
  static constexpr std::uint32_t kAllOps = 0xffffffff;
  bool last_part() const { return end_op == kAllOps; }
};

// The block's ops in that direction.
inline const std::vector<Op>& ops_of(const Block& block, schedule::Direction direction) {
  if (direction == schedule::Direction::weights) return block.weights;
  return direction == schedule::Direction::forward ? block.forward : block.backward;
}
// Whether nothing of the block is alive behind the visit: the last part of backward, or of its weight gradients.
inline bool ends_tensors(const Block& block, const Visit& visit) {
  if (visit.direction == schedule::Direction::forward || !visit.last_part()) return false;
  return visit.direction == schedule::Direction::weights || block.weights.empty();
}

struct Program {
  std::int64_t stage = 0;
  std::int64_t slots = 0;  // blocks of the stage that own tensors across forward and backward
  std::vector<Visit> visits;
};

class Plan {
 public:
  std::shared_ptr<const scenario::Scenario> scenario;
  Shape shape;
  topology::Cluster cluster;
  std::int64_t iteration = 0;
  std::vector<Block> blocks;
  std::vector<Program> programs;         // one per EP group, ordered by stage, then group; one per stage when folded
  std::vector<StaticMemory> statics;     // per stage
  std::vector<double> memfine_max_rows;  // per stage; empty without MemFine
  double distinct_share = 1;             // tokens a received row, in the mean: distinct ranks / top_k
  std::int64_t fold = 0;  // ranks of a stage that stand for all: rank r is as rank r mod fold of its stage (fold.h)

  const Program& program_of(std::int64_t rank) const;
  std::int64_t stage_of(std::int64_t rank) const { return rank / scenario->layout.stage_size(); }
  // Ranks that together hold a whole set of experts: an EP group, with its expert tensor parallel peers. Peers are one
  // member: they share its rows.
  std::int64_t group_of(std::int64_t rank) const { return rank / (scenario->layout.ep * scenario->layout.etp); }
  std::int64_t member_of(std::int64_t rank) const { return rank / scenario->layout.etp % scenario->layout.ep; }
  std::int64_t groups_per_stage() const { return scenario->layout.edp(); }
  std::int64_t representative_of(std::int64_t rank) const {
    const std::int64_t first = stage_of(rank) * scenario->layout.stage_size();
    return first + (rank - first) % fold;
  }
  // Decision for a MoE layer and microbatch in the EP group `group % groups_per_stage`.
  const policy::LayerDecision& decision(std::int64_t moe_layer, std::int64_t microbatch, std::int64_t group) const;
  std::size_t decision_number(std::int64_t moe_layer, std::int64_t microbatch, std::int64_t group) const;
  // Rows that an op or tensor of a visit is about, on this rank.
  std::int64_t rows(const Rows& which, const Visit& visit, std::int64_t rank) const;
  std::int64_t bytes(const Size& size, const Visit& visit, std::int64_t rank) const;  // at least 0, not rounded

  // Those that differ; [(moe_layer * microbatches + microbatch) * groups_per_stage + group in stage] -> which.
  std::vector<policy::LayerDecision> decisions;
  std::vector<std::int32_t> decision_of;
  // Of each decision, sums over its row matrices: every chunk of forward, then of backward where that has its own; for
  // each what the members receive, then what they send. Empty: sums are taken anew each time (sum_rows).
  std::vector<std::vector<std::int32_t>> row_sums;
  // Received or sent rows of a member in the chunk and direction of `which`.
  std::int64_t summed_rows(std::size_t decision, const Rows& which, std::int64_t member, bool sent) const;
};

// Fills plan.row_sums from plan.decisions.
void sum_rows(Plan& plan);

// Decides every (MoE layer, microbatch, EP group) on `threads` threads (the result does not depend on their number),
// then writes the programs.
Plan make_plan(std::shared_ptr<const scenario::Scenario> scenario, std::int64_t iteration, int threads);

// Whether a policy weighs times against each other, so that rows depend on the rates of the profile.
bool decides_by_time(const scenario::Scenario& scenario);
// The same iteration under a scenario that differs in rates, latencies and scales of its hardware profile alone: rows
// are not decided again, but where a policy weighs times against each other.
Plan repriced(const Plan& plan, std::shared_ptr<const scenario::Scenario> scenario, int threads);

}  // namespace moeplan::plan
