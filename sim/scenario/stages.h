#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "schedule/schedule.h"

// Which layers a pipeline rank holds: one chunk a virtual stage, placed in Megatron's order (chunk v of rank r is the
// (v p + r)-th of the model) or as the schedule wants it (schedule::Placement).
namespace moeplan::scenario {

struct StageChunk {
  bool embedding = false, loss = false;
  std::vector<std::int32_t> layers;  // global layers, ascending; may be empty
  std::int32_t mtp = 0;              // multi-token-prediction blocks
};

class StageMap {
 public:
  StageMap() = default;
  // In model order; the number of chunks is a multiple of pp (2 pp in a V, pp mirrored).
  StageMap(std::int64_t pp, std::vector<StageChunk> in_model_order);
  void place(schedule::Placement placement);
  schedule::Placement placement() const { return placement_; }
  std::int64_t pp() const { return pp_; }
  std::int64_t vpp() const { return pp_ == 0 ? 1 : static_cast<std::int64_t>(chunks_.size()) / pp_; }
  std::int64_t chunks() const { return vpp() * copies(); }  // on each rank: virtual stages, and copies of other ranks'
  std::int64_t copies() const { return placement_ == schedule::Placement::mirrored ? 2 : 1; }  // of every parameter
  const StageChunk& chunk(std::int64_t stage, std::int64_t chunk) const;
  // Whether microbatches run through the chunk from the last rank to the first.
  bool reversed(std::int64_t chunk) const { return chunk == 1 && placement_ != schedule::Placement::looped; }
  // Whether the chunk's output is the input of the rank's next chunk, or its input the output of the one before.
  bool turns_out(std::int64_t stage, std::int64_t chunk) const { return turn(stage) && chunk == 0; }
  bool turns_in(std::int64_t stage, std::int64_t chunk) const { return turn(stage) && chunk == 1; }
  // Pipeline rank that runs the layer; reversed: for microbatches from the other end, where there are such.
  std::int64_t stage_of_layer(std::int64_t layer, bool reversed = false) const;
  bool holds(std::int64_t stage, std::int64_t layer) const;
  std::vector<std::int32_t> layers_of(std::int64_t stage) const;  // over its chunks, ascending
  std::int64_t mtp_on(std::int64_t stage) const;
  bool embedding_on(std::int64_t stage) const;
  bool loss_on(std::int64_t stage) const;
  std::int64_t most_layers() const;  // of one stage
  std::string text() const;          // as a layout string, without repeats

 private:
  bool turn(std::int64_t stage) const { return placement_ == schedule::Placement::v_shape && stage + 1 == pp_; }
  std::int64_t pp_ = 0;
  schedule::Placement placement_ = schedule::Placement::looped;
  std::vector<StageChunk> chunks_;  // in model order
};

struct StageRules {
  std::int64_t pp = 1, vpp = 1, layers = 0, mtp = 0;
  std::optional<std::int64_t> first_layers, last_layers;  // num_layers_in_first/last_pipeline_stage
  bool account_for_embedding = false, account_for_loss = false;
};

// Megatron's even division: layers (plus one each for embedding and loss where they are accounted for) over pp * vpp;
// with first or last counts the rest over the other stages. A fault is (key, message with the numbers); the map is
// empty then. MTP blocks stand before the loss.
std::pair<StageMap, std::vector<std::pair<std::string, std::string>>> even_stages(const StageRules& rules);

// A layout string: E embedding, t layer, m MTP block, L loss, '|' ends a virtual stage, '*n' repeats the letter or the
// parenthesis before it. Faults as above, with the position in the string.
std::pair<StageMap, std::vector<std::pair<std::string, std::string>>> parse_stages(const std::string& text,
                                                                                   const StageRules& rules);

}  // namespace moeplan::scenario
