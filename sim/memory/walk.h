#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "base/check.h"
#include "memory/replay.h"
#include "plan/rank_rows.h"

namespace moeplan::memory {

// Walks a rank's program in order and keeps what is live. `observe(visit index, op index, live)` runs after the
// allocations of each op, before its frees.
class Walk {
 public:
  struct Live {
    std::int64_t bytes = 0;  // transient: static memory not counted
    plan::BytesByKind by_kind{};
    std::int64_t routed_bytes = 0;  // tensors that are sized by routed rows
    std::int64_t host_bytes = 0;    // in host memory: activations that were moved there
  };

  Walk(const plan::Plan& plan, std::int64_t rank) : plan_(plan), rows_(plan, rank), program_(plan.program_of(rank)) {
    frames_.resize(static_cast<std::size_t>(program_.slots * plan.scenario->microbatches()));
  }

  template <class Observe>
  void run(const Observe& observe) {
    for (std::size_t v = 0; v < program_.visits.size(); ++v) {
      const plan::Visit& visit = program_.visits[v];
      const plan::Block& block = plan_.blocks[static_cast<std::size_t>(visit.block)];
      std::vector<std::int64_t>& frame = frames_[frame_index(visit)];
      if (frame.empty()) frame.assign(block.tensors.size(), kDead);
      const auto& ops = plan::ops_of(block, visit.direction);
      const std::size_t end = std::min<std::size_t>(visit.end_op, ops.size());
      for (std::size_t o = visit.first_op; o < end; ++o) {
        for (plan::TensorId id : ops[o].allocates) allocate(block, visit, frame, id);
        move(ops[o], visit);
        observe(v, o, live_);
        for (plan::TensorId id : ops[o].frees) release(block, frame, id);
      }
      if (plan::ends_tensors(block, visit)) {
        for (std::size_t id = 0; id < frame.size(); ++id)
          MOEPLAN_CHECK(frame[id] == kDead, block.name + ": tensor outlives backward: " + block.tensors[id].name);
        std::vector<std::int64_t>().swap(frame);
      }
    }
    for (const OfStep& one : of_step_) live_.bytes -= one.bytes;
    of_step_.clear();
    MOEPLAN_CHECK(live_.bytes == 0, "transient memory is left at the end of the iteration");
  }

  // What is live now, by (block, tensor): for alive_at_peak.
  template <class Each>
  void each_live(const Each& each) const {
    for (std::size_t f = 0; f < frames_.size(); ++f)
      for (std::size_t id = 0; id < frames_[f].size(); ++id)
        if (frames_[f][id] > 0)
          each(plan_.blocks[static_cast<std::size_t>(block_of_frame(f))].tensors[id], frames_[f][id]);
    for (const OfStep& one : of_step_) each(*one.tensor, one.bytes);
  }

 private:
  static constexpr std::int64_t kDead = -1;
  struct OfStep {
    const plan::Tensor* tensor;
    std::int64_t bytes;
    std::int32_t slot;
    plan::TensorId id;
  };

  void make_of_step(const plan::Block& block, const plan::Visit& visit, plan::TensorId id) {
    for (const OfStep& one : of_step_)
      if (one.slot == visit.slot && one.id == id) return;
    const plan::Tensor& tensor = block.tensors[id];
    of_step_.push_back({&tensor, allocation_bytes(rows_.bytes(tensor.size, visit)), visit.slot, id});
    live_.bytes += of_step_.back().bytes;
    live_.by_kind[static_cast<std::size_t>(tensor.kind)] += of_step_.back().bytes;
  }

  // Copies of saved activations to host memory and back.
  void move(const plan::Op& op, const plan::Visit& visit) {
    if (op.work != plan::Work::host_copy || !op.asynchronous) return;
    const std::int64_t bytes = rows_.bytes(op.size, visit);
    live_.host_bytes += op.stream == plan::Stream::to_host ? bytes : -bytes;
  }

  // Sized by routed rows, not by instances of experts.
  static bool routed(const plan::Tensor& tensor) {
    return tensor.size.bytes_per_row != 0 && !tensor.size.rows.of_instances();
  }

  std::size_t frame_index(const plan::Visit& visit) const {
    return static_cast<std::size_t>(visit.microbatch * program_.slots + visit.slot);
  }
  std::int32_t block_of_frame(std::size_t frame) const {
    for (const plan::Visit& visit : program_.visits)
      if (frame_index(visit) == frame) return visit.block;
    return 0;
  }
  void allocate(const plan::Block& block, const plan::Visit& visit, std::vector<std::int64_t>& frame,
                plan::TensorId id) {
    const plan::Tensor& tensor = block.tensors[id];
    if (tensor.of_step) {
      make_of_step(block, visit, id);
      return;
    }
    MOEPLAN_CHECK(frame[id] == kDead, block.name + ": tensor is allocated twice: " + tensor.name);
    frame[id] = allocation_bytes(rows_.bytes(tensor.size, visit));
    live_.bytes += frame[id];
    live_.by_kind[static_cast<std::size_t>(tensor.kind)] += frame[id];
    if (routed(tensor)) live_.routed_bytes += frame[id];
  }
  void release(const plan::Block& block, std::vector<std::int64_t>& frame, plan::TensorId id) {
    MOEPLAN_CHECK(frame[id] != kDead, block.name + ": tensor is freed but not alive: " + block.tensors[id].name);
    live_.bytes -= frame[id];
    live_.by_kind[static_cast<std::size_t>(block.tensors[id].kind)] -= frame[id];
    if (routed(block.tensors[id])) live_.routed_bytes -= frame[id];
    frame[id] = kDead;
  }

  const plan::Plan& plan_;
  plan::RankRows rows_;
  const plan::Program& program_;
  std::vector<std::vector<std::int64_t>> frames_;
  std::vector<OfStep> of_step_;
  Live live_;
};

}  // namespace moeplan::memory
