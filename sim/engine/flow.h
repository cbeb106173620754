#pragma once
#include <cstdint>

#include "plan/op.h"

namespace moeplan::engine {

// What crosses a pipeline border: activations or gradients, of chunks that run to the last rank or to the first.
struct Flow {
  bool activations, reversed;
  bool towards_next() const { return activations != reversed; }
  std::int64_t number() const { return (reversed ? 2 : 0) + (activations ? 0 : 1); }
};
inline constexpr std::int64_t kFlows = 4;

inline Flow flow_of(const plan::Op& op) {
  using plan::Stream;
  const bool activations = op.stream == Stream::send_next || op.stream == Stream::receive_previous ||
                           op.stream == Stream::send_activations_back;
  return {activations, op.reversed};
}

}  // namespace moeplan::engine
