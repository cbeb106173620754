#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

// Which layers a pipeline rank holds: one chunk a virtual stage, in Megatron's order (chunk v of rank r is the (v p +
// r)-th of the model).
namespace moeplan::scenario {

struct StageChunk {
  bool embedding = false, loss = false;
  std::vector<std::int32_t> layers;  // global layers, ascending; may be empty
  std::int32_t mtp = 0;              // multi-token-prediction blocks
};

class StageMap {
 public:
  StageMap() = default;
  // In model order; the number of chunks is a multiple of pp.
  StageMap(std::int64_t pp, std::vector<StageChunk> in_model_order);
  std::int64_t pp() const { return pp_; }
  std::int64_t vpp() const { return pp_ == 0 ? 1 : static_cast<std::int64_t>(chunks_.size()) / pp_; }
  const StageChunk& chunk(std::int64_t stage, std::int64_t virtual_stage) const;
  std::int64_t stage_of_layer(std::int64_t layer) const;          // pipeline rank
  std::vector<std::int32_t> layers_of(std::int64_t stage) const;  // over its chunks, in chunk order
  std::int64_t mtp_on(std::int64_t stage) const;
  bool embedding_on(std::int64_t stage) const;
  bool loss_on(std::int64_t stage) const;
  std::int64_t most_layers() const;  // of one stage
  std::string text() const;          // as a layout string, without repeats

 private:
  std::int64_t pp_ = 0;
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
