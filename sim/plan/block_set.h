#pragma once
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "plan/blocks.h"
#include "plan/plan.h"
#include "plan/side_streams.h"

namespace moeplan::plan {

// Whether a stage's embedding and output layer are one matrix whose gradient autograd sums before it hands it on: the
// output layer's then stays until the embedding's backward, where the last op of the head's block drops it.
bool holds_tied_gradient(const scenario::Scenario& scenario);

// The blocks of a plan, each written once. An edge block is the first microbatch's in forward, the last one's in
// backward: parameters arrive and gradients leave beside it, where the scenario overlaps them.
class BlockSet {
 public:
  explicit BlockSet(Plan& plan) : plan_(plan) {}

  std::int32_t embedding(bool edge);
  std::int32_t head(bool edge);
  std::int32_t mtp(bool edge);
  std::int32_t receive();
  std::int32_t send();
  std::int32_t dense(const LayerTraits& traits, bool edge);
  std::int32_t moe(const LayerTraits& traits, const Treatment& treatment, bool edge);
  std::int32_t optimizer(std::int64_t stage);

 private:
  enum class Kind : std::uint8_t { embedding, head, mtp, receive, send, dense, moe };
  struct Key {
    Kind kind;
    bool edge;
    LayerTraits traits;
    Treatment treatment;
    auto operator<=>(const Key&) const = default;
  };
  template <class Make>
  std::int32_t once(const Key& key, const Make& make);
  Block finished(Block block, const BlockParameters& parameters, bool edge) const;
  Block layer(Block made, model::LayerKind kind, const LayerTraits& traits, bool edge) const;
  BlockParameters layer_parameters(model::LayerKind kind) const;
  std::int64_t vocabulary_parameters() const;

  Plan& plan_;
  std::map<Key, std::int32_t> known_;
};

}  // namespace moeplan::plan
