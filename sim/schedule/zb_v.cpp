#include <algorithm>
#include <array>

#include "base/check.h"
#include "schedule/slots.h"

namespace moeplan::schedule {

namespace {

// Slots of two chunks, each chunk's in the order of its microbatches.
class Sequence {
 public:
  explicit Sequence(std::int64_t microbatches) : microbatches_(microbatches) {}
  void forward(std::int64_t chunk) { add(Direction::forward, chunk, forwards_); }
  void backward(std::int64_t chunk) { add(Direction::backward, chunk, backwards_); }
  void weights(std::int64_t chunk) { add(Direction::weights, chunk, weights_); }
  void whole_backward(std::int64_t chunk) {
    backward(chunk);
    weights(chunk);
  }
  std::int64_t forwards(std::int64_t chunk) const { return forwards_[static_cast<std::size_t>(chunk)]; }
  std::int64_t waiting(std::int64_t chunk) const {
    return backwards_[static_cast<std::size_t>(chunk)] - weights_[static_cast<std::size_t>(chunk)];
  }
  std::vector<Slot> take() { return std::move(slots_); }

 private:
  using Counts = std::array<std::int64_t, 2>;
  void add(Direction direction, std::int64_t chunk, Counts& counts) {
    const std::int64_t microbatch = counts[static_cast<std::size_t>(chunk)]++;
    if (microbatch < microbatches_)
      slots_.push_back({direction, microbatch, chunk, false, direction == Direction::backward});
  }
  std::int64_t microbatches_;
  Counts forwards_{}, backwards_{}, weights_{};
  std::vector<Slot> slots_;
};

}  // namespace

std::vector<Slot> zb_v(std::int64_t stage, std::int64_t stages, std::int64_t microbatches, std::int64_t chunks) {
  check_arguments(stage, stages, microbatches, chunks);
  MOEPLAN_CHECK(chunks == 2, "the V has two chunks a rank");
  // So many fill the pipeline; of those that are not there the slots are left out.
  const std::int64_t filling = std::max(2 * stages - 1, microbatches);
  const std::int64_t behind = stages - stage;  // ranks from this one to the turn of the V
  Sequence sequence(microbatches);
  // Until the first microbatch is back from the turn; then both chunks until it comes back from the loss on rank 0.
  for (std::int64_t i = 0; i < 2 * behind - 1; ++i) sequence.forward(0);
  for (std::int64_t i = 0; i < stage; ++i) {
    sequence.forward(1);
    sequence.forward(0);
  }
  for (std::int64_t i = 0; i < behind; ++i) {
    sequence.forward(1);
    sequence.whole_backward(1);
  }
  while (sequence.forwards(1) < sequence.forwards(0) || sequence.forwards(0) < filling) {
    if (sequence.forwards(0) < filling) sequence.forward(0);
    sequence.whole_backward(0);
    sequence.forward(1);
    sequence.whole_backward(1);
  }
  // Input gradients first: earlier ranks wait for them. The weights that are left fill the end.
  for (std::int64_t i = 0; i < stage; ++i) {
    sequence.backward(0);
    sequence.backward(1);
  }
  for (std::int64_t i = 0; i < behind; ++i) sequence.whole_backward(0);
  while (sequence.waiting(1) > 0) sequence.weights(1);
  while (sequence.waiting(0) > 0) sequence.weights(0);
  return sequence.take();
}

}  // namespace moeplan::schedule
