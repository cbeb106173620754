#pragma once
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "routing/loads.h"

// What the policies decide for one MoE layer, one microbatch and one expert-parallel (EP) group: how many chunks, which
// rows go where in forward and in backward, and what backward does with the routed part. Plain data; the plan turns it
// into operations.
namespace moeplan::policy {

// Rows (token copies) of one chunk, after placement. P = members of the EP group.
struct RoutedRows {
  std::int64_t members = 0;
  std::vector<std::int32_t> matrix;          // [source * P + destination]
  std::vector<std::int64_t> instance_rows;   // rows of every expert instance, grouped by the destination that hosts it
  std::vector<std::int32_t> instance_begin;  // size P + 1: instances of destination d are [begin[d], begin[d+1])
  // Expert of every instance: a destination's home experts in order, then what it hosts besides. Empty where all
  // experts are at home alone, and instance i is expert i.
  std::vector<std::int32_t> instance_experts;

  std::span<const std::int64_t> rows_on(std::int64_t destination) const;
  std::int64_t received(std::int64_t destination) const;  // sum over sources
  std::int64_t sent(std::int64_t source) const;           // sum over destinations, its own share included
  std::int64_t total() const;
  std::int64_t expert_of(std::int64_t instance) const;  // of an index into instance_rows
  // Whether every source sends every destination the same, and every destination's experts get the same.
  bool even() const;
  bool operator==(const RoutedRows&) const = default;
};

// What backward does with the routed part (dispatch, experts, combine) of a layer.
enum class RoutedBackward {
  kept,       // activations were kept in forward
  recompute,  // forward of each chunk is run again, then its backward (MemFine's FCDA; with one chunk: recompute of the
              // routed part)
  redispatch,     // LRMoE mode B: inputs and output gradients of the retained rows are sent again, first projection
                  // recomputed
  kept_retained,  // LRMoE mode A: pairs are selected in forward, which keeps their activations alone where they were
                  // computed; backward sends their output gradients
};

struct LayerDecision {
  std::int64_t chunks = 1;
  RoutedBackward backward = RoutedBackward::kept;
  bool layer_notify = false;                  // an exchange of the whole layer's counts before the chunk loop (MemFine)
  bool select = false;                        // LRMoE's planning, scoring and selection run
  std::vector<RoutedRows> forward_rows;       // one per chunk
  std::vector<RoutedRows> backward_rows;      // one per chunk; empty: the forward rows
  double retained_rows = 0, routed_rows = 0;  // sums over the group; equal when nothing is cut
  double retained_score = 0, total_score = 0;  // score mass; both 0 when there is no selection
  double max_received = 0;                     // s'': largest whole-layer row count of a member in forward
  double dropped_rows = 0;                     // pairs above an expert capacity, not in routed_rows
  double padding_rows = 0;      // empty rows that pad the forward rows to capacity, not in routed_rows either
  bool padded = false;          // row counts are fixed by the capacity: no exchange of counts, no host wait
  bool plan_placement = false;  // LRMoE plans instances of experts in forward
  // Instances of experts beyond the one at home, for this layer and microbatch: [home * P + host]; empty: none.
  std::vector<std::int32_t> replicas;

  const std::vector<RoutedRows>& rows_of_backward() const {
    return backward_rows.empty() ? forward_rows : backward_rows;
  }
  bool even() const;  // of all members: equal rows in every chunk and direction, and no instances beyond home
  bool operator==(const LayerDecision&) const = default;
  std::int64_t extra_instances(std::int64_t member) const;  // that the member hosts for others
  std::int64_t lent_instances(std::int64_t member) const;   // of its own experts, on other members
};

// One EP group, one MoE layer, one microbatch: everything a policy may look at.
struct GroupContext {
  const routing::LoadSource* loads = nullptr;
  std::int64_t iteration = 0, microbatch = 0;
  std::int64_t moe_layer = 0;  // 0-based among the MoE layers
  std::int64_t group = 0;      // number of the EP group (for random streams)
  struct Source {              // the tokens of one member
    std::int64_t replica = 0, begin = 0, end = 0;
  };
  std::vector<Source> sources;  // one per member, in group order
  std::int64_t experts = 0, top_k = 0;
  // Set by the capacity policy: rows of a source to each expert in forward, whatever was routed. Empty: no padding.
  std::vector<std::int64_t> padded_rows;
  std::shared_ptr<const routing::LoadSource> kept_loads;  // what `loads` points to once pairs were dropped
  std::int64_t members() const { return static_cast<std::int64_t>(sources.size()); }
};

// Positions [begin, end) of chunk `chunk` of `chunks` of a source's tokens: cut as evenly as whole positions allow.
GroupContext::Source chunk_of(const GroupContext::Source& source, std::int64_t chunk, std::int64_t chunks);

// Counts [source * experts + e] of one chunk (routing counts, before placement).
std::vector<std::int64_t> chunk_counts(const GroupContext& context, std::int64_t chunk, std::int64_t chunks);

// Rows [source * experts + e] that forward sends in one chunk: chunk_counts, or with padding each source's capacity cut
// evenly over the chunks.
std::vector<std::int64_t> forward_counts(const GroupContext& context, std::int64_t chunk, std::int64_t chunks);

// Home placement: expert e lives on member e / (experts / members). Experts must divide by members.
RoutedRows place_at_home(std::span<const std::int64_t> counts, std::int64_t members, std::int64_t experts);

class Policy {
 public:
  virtual ~Policy() = default;
  virtual std::string name() const = 0;
  // Changes a decision, and in `context` (decide's own copy) what the policies after it see. Policies run in the order
  // of the table (policies.h); thread-safe.
  virtual void apply(GroupContext& context, LayerDecision& decision) const = 0;
};

// The baseline: one chunk, home placement, activations kept; then each policy in turn.
LayerDecision decide(const GroupContext& context, std::span<const Policy* const> policies);

}  // namespace moeplan::policy
