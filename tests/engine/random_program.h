#pragma once
#include <cstdint>

#include "program_in_memory.h"

namespace moeplan::engine {

// 2 to 8 ranks, up to about 200 ops each, random streams, waits, syncs and rendezvous of random subsets. A list of ops
// in one global order is dealt out to the ranks, so every op depends on earlier ones only: no deadlock. Then neighbours
// of a rank's program that follow neither each other nor a host sync change places many times: dependencies stay as
// they are, while ranks reach their rendezvous in orders that no global list has.
Program random_program(std::uint64_t seed);

// The same with computation on stream 0 that what runs beside it on other streams slows down.
Program random_shared_program(std::uint64_t seed);

}  // namespace moeplan::engine
