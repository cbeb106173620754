#pragma once
#include <compare>
#include <cstdint>

#include "plan/moe.h"
#include "plan/op.h"
#include "plan/shape.h"
#include "plan/static_memory.h"

// The blocks that programs are made of. A block starts each direction by allocating what arrives (input, or gradient of
// its output) and hands its result over at the end: the last op allocates and frees it, and the next block allocates it
// again as its own.
namespace moeplan::plan {

Block make_embedding_block(const scenario::Scenario& scenario, const Shape& shape);
// Full recompute of groups of several layers: `first` and `inner` run forward and keep the group's input or nothing,
// `member` is the same layer once more, in the backward phase, which keeps all that its backward reads.
enum class GroupRole : std::uint8_t { none, first, inner, member };
// What sets layers of one kind apart.
struct LayerTraits {
  std::int64_t window = 0;  // of sliding-window attention, 0 for full
  bool spared = false;      // full recompute leaves it out (method block)
  GroupRole role = GroupRole::none;
  bool runs_once() const { return spared || role == GroupRole::member; }  // nothing of it in backward again
  auto operator<=>(const LayerTraits&) const = default;
};
Block make_dense_layer_block(const scenario::Scenario& scenario, const Shape& shape, const LayerTraits& traits = {});
Block make_moe_layer_block(const scenario::Scenario& scenario, const Shape& shape, const Treatment& treatment,
                           const LayerTraits& traits = {});
// Router and routed part alone, from the normed input to the sum of the experts' outputs and back: what moeplan-device
// runs of a layer.
Block make_routed_block(const scenario::Scenario& scenario, const Shape& shape, const Treatment& treatment);
// What a multi-token-prediction block does before its layer: look the shifted tokens up, norm both, project 2h to h.
Block make_mtp_block(const scenario::Scenario& scenario, const Shape& shape);
Block make_head_block(const scenario::Scenario& scenario, const Shape& shape);
// Pipeline hand-over at a stage's borders: forward receives activations / sends them on; backward the gradients, the
// other way. reversed: of a chunk that runs from the last rank to the first. Under overlap_p2p_comm a receive is two
// ops: the transfer, which nobody waits for, and the wait for it.
Block make_receive_block(const scenario::Scenario& scenario, const Shape& shape,
                         bool reversed);  // first in forward, last in backward
Block make_send_block(const scenario::Scenario& scenario, const Shape& shape,
                      bool reversed);  // last in forward, first in backward
// Gradient reduction, norm, Adam on this rank's shard (or Muon on its matrices), parameter gathering, for the
// parameters of a stage. Where another rank holds the same stages, gradients are summed and parameters gathered with it
// too.
Block make_optimizer_block(const scenario::Scenario& scenario, std::int64_t stage);

}  // namespace moeplan::plan
