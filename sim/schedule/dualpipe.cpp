#include <algorithm>
#include <array>
#include <deque>

#include "base/check.h"
#include "schedule/slots.h"

namespace moeplan::schedule {

namespace {

// Two streams of microbatches that meet on every rank: "near" came in at the end of the pipeline that is nearer in the
// order of the schedule, "far" at the other.
class TwoWay {
 public:
  // near_chunk: which chunk the near microbatches run through. first_far, first_near: their first microbatches.
  TwoWay(std::int64_t near_chunk, std::array<std::int64_t, 2> first_of_chunk)
      : near_chunk_(near_chunk), first_of_chunk_(first_of_chunk) {}

  void forward(int way, bool takes_turns = false) {
    slots_.push_back({Direction::forward, next(way, forwards_), chunk(way), takes_turns, false});
  }
  void backward(int way, bool split = false) {
    slots_.push_back({Direction::backward, next(way, backwards_), chunk(way), false, split});
    if (split) waiting_.push_back({Direction::weights, slots_.back().microbatch, chunk(way)});
  }
  void weights() {
    MOEPLAN_CHECK(!waiting_.empty(), "weight gradients follow their backward");
    slots_.push_back(waiting_.front());
    waiting_.pop_front();
  }
  void pair(int forward_way, int backward_way) {
    forward(forward_way, true);
    backward(backward_way);
  }
  std::vector<Slot> take() {
    MOEPLAN_CHECK(waiting_.empty(), "no weight gradient is left");
    return std::move(slots_);
  }

 private:
  using Counts = std::array<std::int64_t, 2>;
  std::int64_t chunk(int way) const { return way == 0 ? near_chunk_ : 1 - near_chunk_; }
  std::int64_t next(int way, Counts& counts) const {
    return first_of_chunk_[static_cast<std::size_t>(chunk(way))] + counts[static_cast<std::size_t>(way)]++;
  }
  std::int64_t near_chunk_;
  std::array<std::int64_t, 2> first_of_chunk_;
  Counts forwards_{}, backwards_{};
  std::vector<Slot> slots_;
  std::deque<Slot> waiting_;
};

constexpr int kNear = 0, kFar = 1;

// depth: ranks from the end to the middle (or the turn of a V); place: this one's, 0 at the end; count: microbatches of
// each way.
std::vector<Slot> two_way(TwoWay ways, std::int64_t depth, std::int64_t place, std::int64_t count) {
  const std::int64_t inner = depth - place - 1;  // ranks between this one and the middle
  const bool middle = inner == 0;
  for (std::int64_t i = 0; i < 2 * inner; ++i) ways.forward(kNear);
  for (std::int64_t i = 0; i < place + 1; ++i) {
    ways.forward(kNear);
    ways.forward(kFar);
  }
  for (std::int64_t i = 0; i < inner; ++i) {
    ways.backward(kFar, true);
    ways.weights();
    ways.forward(kFar);
  }
  const std::int64_t steady = count - 2 * depth + place + 1;
  for (std::int64_t i = 0; i < steady; ++i) {
    if (i == 0 && middle) {  // apart: the neighbour in the middle waits for the forward
      ways.forward(kNear);
      ways.backward(kFar);
    } else {
      ways.pair(kNear, kFar);
    }
    ways.pair(kFar, kNear);
  }
  for (std::int64_t i = 0; i < inner; ++i) {
    ways.backward(kFar);
    ways.pair(kFar, kNear);
  }
  // The second half of what is left leaves its weights for the end.
  const std::int64_t last = place + 1;
  bool split = false;
  for (std::int64_t i = 0; i < last; ++i) {
    if (i == last / 2 && place % 2 == 1) split = true;
    ways.backward(kFar, split);
    if (i == last / 2 && place % 2 == 0) split = true;
    ways.backward(kNear, split);
  }
  for (std::int64_t i = 0; i < inner; ++i) {
    ways.weights();
    ways.backward(kNear, true);
  }
  for (std::int64_t i = 0; i < last; ++i) ways.weights();
  return ways.take();
}

}  // namespace

std::vector<Slot> dualpipe(std::int64_t stage, std::int64_t stages, std::int64_t microbatches, std::int64_t chunks) {
  check_arguments(stage, stages, microbatches, chunks);
  MOEPLAN_CHECK(chunks == 2 && stages % 2 == 0, "DualPipe folds an even pipeline in two");
  MOEPLAN_CHECK(microbatches % 2 == 0 && microbatches >= 2 * stages, "DualPipe fills the pipeline from both ends");
  const std::int64_t half = microbatches / 2, place = std::min(stage, stages - 1 - stage);
  const std::int64_t near_chunk = stage < stages / 2 ? 0 : 1;
  return two_way(TwoWay(near_chunk, {0, half}), stages / 2, place, half);
}

std::vector<Slot> dualpipe_v(std::int64_t stage, std::int64_t stages, std::int64_t microbatches, std::int64_t chunks) {
  check_arguments(stage, stages, microbatches, chunks);
  MOEPLAN_CHECK(chunks == 2, "the V has two chunks a rank");
  MOEPLAN_CHECK(microbatches >= 2 * stages, "DualPipeV fills both arms of the V");
  return two_way(TwoWay(0, {0, 0}), stages, stage, microbatches);
}

}  // namespace moeplan::schedule
