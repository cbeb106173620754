#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace moeplan::bench {

// A graph of operations in an order in which predecessors come first, two of them an operation, within kReach: the
// recurrence of the engine alone, without programs, prices and attribution. What the machine gives at most.
class Graph {
 public:
  static constexpr std::int64_t kReach = 65536;
  // Every eighth operation waits for one far back in place of the one before it; the second predecessor is anywhere.
  explicit Graph(std::int64_t ops);

  std::int64_t ops() const { return static_cast<std::int64_t>(before_.size()); }
  // Bytes an operation: its predecessors, `lanes` durations and the ends that they lead to.
  static std::size_t bytes(std::size_t lanes) { return sizeof(Before) + lanes * (sizeof(std::uint32_t) + 8); }

  // Ends in picoseconds, [operation][lane]: several sets of durations, one for each of `Lanes` scenarios, in one pass.
  template <std::size_t Lanes>
  std::int64_t makespan_ps(const std::vector<std::uint32_t>& duration_ps, std::vector<std::int64_t>& end_ps) const;
  std::vector<std::uint32_t> durations(std::size_t lanes) const;

 private:
  struct Before {
    std::uint16_t near = 0, far = 0;  // how far back, less one
  };
  std::vector<Before> before_;
};

}  // namespace moeplan::bench
