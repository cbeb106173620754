#pragma once
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

#include "plan/blocks.h"
#include "plan/plan.h"
#include "plan/side_streams.h"

namespace moeplan::plan {

// The output layer's matrix belongs to several blocks of a stage: the heads of MTP blocks, and an embedding that is tied
// to it. Autograd sums their gradients before it hands them on: that of a head then stays until the last of them ran its
// backward, where the last op of the head's block drops it.
struct SharedMatrix {
  bool heads = false, embedding = false;
  bool any() const { return heads || embedding; }
};
SharedMatrix shared_matrix(const scenario::Scenario& scenario);

// What sets two writings of the same layer apart; their tensors are the same.
struct Variant {
  bool edge = false;   // the first microbatch's in forward, the last one's in backward: parameters arrive and gradients
                       // leave beside it, where the scenario overlaps them
  bool split = false;  // backward leaves its weight gradients for later
  auto operator<=>(const Variant&) const = default;
};

// The blocks of a plan, each written once.
class BlockSet {
 public:
  explicit BlockSet(Plan& plan) : plan_(plan) {}

  std::int32_t embedding(Variant variant);
  std::int32_t head(Variant variant);
  std::int32_t mtp(Variant variant);
  std::int32_t receive(bool reversed);
  std::int32_t send(bool reversed);
  std::int32_t dense(const LayerTraits& traits, Variant variant);
  std::int32_t moe(const LayerTraits& traits, const Treatment& treatment, Variant variant);
  std::int32_t optimizer(std::int64_t stage);

 private:
  enum class Kind : std::uint8_t { embedding, head, mtp, receive, send, receive_back, send_back, dense, moe };
  struct Key {
    Kind kind;
    Variant variant;
    LayerTraits traits;
    Treatment treatment;
    auto operator<=>(const Key&) const = default;
  };
  template <class Make>
  std::int32_t once(const Key& key, const Make& make);
  Block finished(Block block, const BlockParameters& parameters, Variant variant) const;
  Block layer(Block made, model::LayerKind kind, const LayerTraits& traits, Variant variant) const;
  BlockParameters layer_parameters(model::LayerKind kind) const;
  std::int64_t vocabulary_parameters() const;

  Plan& plan_;
  std::map<Key, std::int32_t> known_;
};

}  // namespace moeplan::plan
