#pragma once
#include <cstdint>
#include <vector>

namespace moeplan::engine {

// A rendezvous that some members have reached and others never will.
struct Stuck {
  std::int64_t key = 0;
  std::int64_t arrived = 0;
  std::int64_t members = 0;
  std::int64_t first_rank = 0;  // lowest rank that has arrived
};

// Throws base::InternalError that names up to eight of them, lowest keys first. `ranks`: how many have not finished.
[[noreturn]] void throw_deadlock(std::int64_t ranks, std::vector<Stuck> stuck);

}  // namespace moeplan::engine
