#include "routing/count_table.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "base/check.h"

namespace moeplan::routing {

namespace {

template <class To, class From>
void add(std::vector<To>& to, std::span<const From> from) {
  to.reserve(std::max(to.capacity(), from.size()));
  for (const From value : from) to.push_back(static_cast<To>(value));
}

// The same entries, wider; the narrow ones are given back.
template <class To, class From>
void move_entries(std::vector<From>& from, std::vector<To>& to) {
  const std::vector<From> old = std::exchange(from, {});
  add(to, std::span<const From>(old));
}

}  // namespace

CountTable::Width CountTable::width_of(std::span<const std::int64_t> counts) {
  Width width = Width::two;
  for (const std::int64_t count : counts) {
    if (count < 0 || count > std::numeric_limits<std::uint32_t>::max()) return Width::eight;
    if (count > std::numeric_limits<std::uint16_t>::max()) width = Width::four;
  }
  return width;
}

void CountTable::widen(Width width) {
  if (width_ == Width::two && width == Width::four) move_entries(two_, four_);
  if (width_ == Width::two && width == Width::eight) move_entries(two_, eight_);
  if (width_ == Width::four && width == Width::eight) move_entries(four_, eight_);
  width_ = width;
}

void CountTable::reserve(std::size_t entries) {
  switch (width_) {
    case Width::two:
      return two_.reserve(entries);
    case Width::four:
      return four_.reserve(entries);
    case Width::eight:
      return eight_.reserve(entries);
  }
}

void CountTable::append(std::span<const std::int64_t> counts) {
  if (const Width width = width_of(counts); width > width_) widen(width);
  switch (width_) {
    case Width::two:
      return add(two_, counts);
    case Width::four:
      return add(four_, counts);
    case Width::eight:
      return add(eight_, counts);
  }
}

std::size_t CountTable::size() const { return two_.size() + four_.size() + eight_.size(); }

std::size_t CountTable::bytes() const { return 2 * two_.size() + 4 * four_.size() + 8 * eight_.size(); }

std::vector<std::int64_t> CountTable::part(std::size_t first, std::size_t count) const {
  MOEPLAN_CHECK(first + count <= size(), "counts beyond the table");
  std::vector<std::int64_t> counts;
  switch (width_) {
    case Width::two:
      add(counts, std::span<const std::uint16_t>(two_).subspan(first, count));
      break;
    case Width::four:
      add(counts, std::span<const std::uint32_t>(four_).subspan(first, count));
      break;
    case Width::eight:
      add(counts, std::span<const std::int64_t>(eight_).subspan(first, count));
      break;
  }
  return counts;
}

}  // namespace moeplan::routing
