#pragma once
#include <array>
#include <cstdint>
#include <deque>
#include <span>
#include <vector>

#include "engine/plan_source.h"

namespace moeplan::property {

// Runs as a plan does, and adds up on the way what each rank's streams do.
class StreamTimes : public engine::PlanSource {
 public:
  explicit StreamTimes(const plan::Plan& plan);
  bool next(std::int64_t rank, engine::TimedOp& op) override;
  void done(std::int64_t rank, const engine::OpTimes& times) override;

  // Picoseconds in which a stream runs something.
  std::span<const std::int64_t> busy_ps(std::int64_t rank) const { return at(rank).busy; }
  std::int64_t all_ps(std::int64_t rank) const;  // of all streams together
  // The longest chain of ops that wait for each other: by stream, and by what an op waits for.
  std::int64_t chain_ps(std::int64_t rank) const;

 private:
  struct Rank {
    std::deque<engine::TimedOp> ahead;  // told, not done yet
    std::array<std::int64_t, engine::kMaxStreams> busy{}, chain{};
  };
  Rank& at(std::int64_t rank) { return ranks_[static_cast<std::size_t>(rank)]; }
  const Rank& at(std::int64_t rank) const { return ranks_[static_cast<std::size_t>(rank)]; }
  std::vector<Rank> ranks_;
};

}  // namespace moeplan::property
