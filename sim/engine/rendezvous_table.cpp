#include "engine/rendezvous_table.h"

#include <algorithm>
#include <utility>

#include "base/check.h"

namespace moeplan::engine {
namespace {

constexpr std::size_t kFirstSlots = 64;

bool by_rank(const Arrival& a, const Arrival& b) { return a.rank < b.rank; }

}  // namespace

RendezvousTable::RendezvousTable() : slots_(kFirstSlots) {}

std::size_t RendezvousTable::home(std::int64_t key) const {
  // Keys are often dense or multiples of a stride: the finaliser of SplitMix64 spreads both.
  std::uint64_t x = static_cast<std::uint64_t>(key);
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return static_cast<std::size_t>(x ^ (x >> 31)) & (slots_.size() - 1);
}

std::size_t RendezvousTable::find(std::int64_t key) const {
  std::size_t slot = home(key);
  while (slots_[slot].entry >= 0 && slots_[slot].key != key) slot = (slot + 1) & (slots_.size() - 1);
  return slot;
}

bool RendezvousTable::arrive(std::int64_t key, std::int32_t members, const Arrival& arrival) {
  std::size_t slot = find(key);
  if (slots_[slot].entry < 0) {
    if (2 * (used_ + 1) > slots_.size()) {
      grow();
      slot = find(key);
    }
    if (free_entries_.empty()) {
      free_entries_.push_back(static_cast<std::int32_t>(entries_.size()));
      entries_.emplace_back();
    }
    slots_[slot] = {key, free_entries_.back()};
    free_entries_.pop_back();
    entries_[static_cast<std::size_t>(slots_[slot].entry)].members = members;
    ++used_;
  }
  Entry& entry = entries_[static_cast<std::size_t>(slots_[slot].entry)];
  MOEPLAN_CHECK(entry.members == members, "members of a rendezvous disagree on their number");
  entry.arrivals.push_back(arrival);
  if (entry.arrivals.size() < static_cast<std::size_t>(members)) return false;

  // Trading buffers instead of copying: the entry takes over the capacity of the one before.
  last_.clear();
  std::swap(last_, entry.arrivals);
  erase(slot);
  if (!std::is_sorted(last_.begin(), last_.end(), by_rank)) std::sort(last_.begin(), last_.end(), by_rank);
  for (std::size_t i = 1; i < last_.size(); ++i) {
    MOEPLAN_CHECK(last_[i - 1].rank != last_[i].rank, "a rank meets itself in a rendezvous");
  }
  return true;
}

void RendezvousTable::erase(std::size_t slot) {
  free_entries_.push_back(slots_[slot].entry);
  --used_;
  // Closes the gap (backward shift), so that no probe ends early and no tombstones pile up.
  const std::size_t mask = slots_.size() - 1;
  std::size_t gap = slot;
  for (std::size_t next = (gap + 1) & mask; slots_[next].entry >= 0; next = (next + 1) & mask) {
    const std::size_t distance = (next - home(slots_[next].key)) & mask;
    if (distance >= ((next - gap) & mask)) {
      slots_[gap] = slots_[next];
      gap = next;
    }
  }
  slots_[gap].entry = -1;
}

void RendezvousTable::grow() {
  std::vector<Slot> old(2 * slots_.size());
  std::swap(old, slots_);
  for (const Slot& slot : old) {
    if (slot.entry >= 0) slots_[find(slot.key)] = slot;
  }
}

std::vector<Stuck> RendezvousTable::waiting() const {
  std::vector<Stuck> out;
  for (const Slot& slot : slots_) {
    if (slot.entry < 0) continue;
    const Entry& entry = entries_[static_cast<std::size_t>(slot.entry)];
    const auto first = std::min_element(entry.arrivals.begin(), entry.arrivals.end(), by_rank);
    out.push_back({slot.key, static_cast<std::int64_t>(entry.arrivals.size()), entry.members, first->rank});
  }
  return out;
}

}  // namespace moeplan::engine
