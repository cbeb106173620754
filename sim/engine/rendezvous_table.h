#pragma once
#include <cstdint>
#include <vector>

#include "engine/deadlock.h"

// The rendezvous that have members waiting. Keys live from the first arrival to the last; a program may use a key again
// after that.
namespace moeplan::engine {

struct Arrival {
  std::int64_t rank = 0;
  std::int64_t sequence = 0;  // of the op in the rank's program
  std::int64_t ready_ps = 0;
};

// Hash map (open addressing, linear probing) from key to an entry of a pool. Entries keep their capacity when they are
// used again, so that a long program stops allocating early.
class RendezvousTable {
 public:
  RendezvousTable();

  // Adds one arrival. When it is the last of `members`: true, the key is free again, and `last()` holds all arrivals by
  // ascending rank until the next call.
  bool arrive(std::int64_t key, std::int32_t members, const Arrival& arrival);
  const std::vector<Arrival>& last() const { return last_; }

  std::vector<Stuck> waiting() const;

 private:
  struct Entry {
    std::int32_t members = 0;
    std::vector<Arrival> arrivals;
  };
  struct Slot {
    std::int64_t key = 0;
    std::int32_t entry = -1;  // -1: free
  };

  std::size_t home(std::int64_t key) const;
  std::size_t find(std::int64_t key) const;  // its slot, or the free slot where it belongs
  void erase(std::size_t slot);
  void grow();

  std::vector<Slot> slots_;  // size is a power of two, at most half full
  std::size_t used_ = 0;
  std::vector<Entry> entries_;
  std::vector<std::int32_t> free_entries_;
  std::vector<Arrival> last_;
};

}  // namespace moeplan::engine
