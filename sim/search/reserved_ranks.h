#pragma once
#include <cstdint>
#include <utility>
#include <vector>

#include "memory/reserved.h"

namespace moeplan::search {

// The ranks whose allocator is replayed: of each stage the one with the highest allocated peak, in every iteration. A
// rank that becomes it later is followed from there; those that were stay followed. `also`: ranks that are followed
// whatever they hold.
class ReservedRanks {
 public:
  struct Followed {
    memory::ReservedReplay replay;
    memory::RankMemory best;                 // of the iteration with its highest allocated peak
    std::vector<memory::AliveTensor> alive;  // at that peak
    std::int64_t highest_bytes = 0;          // reserved, in the last iteration
  };
  explicit ReservedRanks(std::vector<std::int64_t> also = {}) : also_(std::move(also)) {}
  // Runs an iteration; `ranks` holds its memory of every rank. Returns the highest device bytes in it.
  std::int64_t add(const plan::Plan& plan, const std::vector<memory::RankMemory>& ranks, int threads);
  // Repeats the last plan until every followed rank has run 3 iterations, and writes what they reserve into `best`.
  void finish(const plan::Plan& plan, int threads);
  const std::vector<Followed>& followed() const { return followed_; }
  const Followed& worst() const;  // the most device bytes; the lowest rank of equals
  std::vector<memory::AllocationFailure> failures() const;

 private:
  std::vector<std::int64_t> also_;
  std::vector<Followed> followed_;  // by rank
};

}  // namespace moeplan::search
