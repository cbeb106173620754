#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

namespace moeplan::memory {

// Free blocks of one pool, the smallest first and by address among equals: contiguous arrays, kept in order. A pool
// holds tens of them, seldom thousands (blocks that meet are joined), so that moving a part of an array costs less than
// a tree's nodes, and counting the smaller ones less than guessing a way down.
class FreeBlocks {
 public:
  struct Entry {
    std::int64_t size = 0, address = 0;
    std::int32_t id = 0;
  };
  std::size_t size() const { return sizes_.size(); }
  std::int64_t size_at(std::size_t place) const { return sizes_[place]; }
  std::int32_t id_at(std::size_t place) const { return ids_[place]; }

  // Place of the first that is not below (size, address); size() where all are.
  std::size_t lower_bound(std::int64_t size, std::int64_t address = -1) const;
  void insert(const Entry& entry);
  void erase(std::size_t place);
  // The entry in place of the one there: only those between the two places move.
  void replace(std::size_t place, const Entry& entry);

 private:
  std::vector<std::int64_t> sizes_, addresses_;
  std::vector<std::int32_t> ids_;
};

}  // namespace moeplan::memory
