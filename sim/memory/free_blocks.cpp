#include "memory/free_blocks.h"

#include <algorithm>

namespace moeplan::memory {

namespace {

constexpr std::size_t kCounted = 12;  // as many are counted; more are halved before

template <class Value>
void move_one(std::vector<Value>& values, std::size_t from, std::size_t to, Value value) {
  Value* v = values.data();
  if (to <= from)
    std::move_backward(v + to, v + from, v + from + 1);
  else
    std::move(v + from + 1, v + to + 1, v + from);
  v[to] = value;
}

template <class Value>
void insert_at(std::vector<Value>& values, std::size_t place, Value value) {
  values.insert(values.begin() + static_cast<std::ptrdiff_t>(place), value);
}

template <class Value>
void erase_at(std::vector<Value>& values, std::size_t place) {
  values.erase(values.begin() + static_cast<std::ptrdiff_t>(place));
}

}  // namespace

std::size_t FreeBlocks::lower_bound(std::int64_t size, std::int64_t address) const {
  // Nothing branches on what is found: it would be guessed wrong half of the time.
  const std::int64_t *sizes = sizes_.data(), *addresses = addresses_.data();
  const auto below = [&](std::size_t i) {
    return static_cast<std::size_t>(sizes[i] < size) |
           (static_cast<std::size_t>(sizes[i] == size) & static_cast<std::size_t>(addresses[i] < address));
  };
  std::size_t first = 0, count = sizes_.size();
  while (count > kCounted) {
    const std::size_t half = count / 2;
    first += half & (std::size_t{0} - below(first + half - 1));
    count -= half;
  }
  std::size_t counted = 0;
  for (std::size_t i = first; i < first + count; ++i) counted += below(i);
  return first + counted;
}

void FreeBlocks::insert(const Entry& entry) {
  const std::size_t place = lower_bound(entry.size, entry.address);
  insert_at(sizes_, place, entry.size);
  insert_at(addresses_, place, entry.address);
  insert_at(ids_, place, entry.id);
}

void FreeBlocks::erase(std::size_t place) {
  erase_at(sizes_, place);
  erase_at(addresses_, place);
  erase_at(ids_, place);
}

void FreeBlocks::replace(std::size_t place, const Entry& entry) {
  std::size_t to = lower_bound(entry.size, entry.address);
  if (to > place) --to;  // of the entry itself
  move_one(sizes_, place, to, entry.size);
  move_one(addresses_, place, to, entry.address);
  move_one(ids_, place, to, entry.id);
}

}  // namespace moeplan::memory
