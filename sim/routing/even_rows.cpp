#include "routing/even_rows.h"

#include <algorithm>
#include <limits>
#include <mutex>

#include "base/check.h"
#include "routing/spread.h"
#include "routing/spread_map.h"

namespace moeplan::routing {
namespace {

// Values that may be kept for slice boundaries (128 MiB); beyond that they are computed each time.
constexpr std::size_t kMostKeptValues = std::size_t{32} << 20;

}  // namespace

EvenRows::EvenRows(std::int64_t tokens, std::int64_t experts, std::int64_t top_k)
    : tokens_(tokens),
      experts_(experts),
      top_k_(top_k),
      stride_(spread_stride(tokens)),
      inverse_(spread_inverse(stride_, tokens)),
      wide_(tokens * top_k > std::numeric_limits<std::uint32_t>::max()) {}

void EvenRows::reserve(std::size_t rows) {
  const std::size_t entries = rows * (static_cast<std::size_t>(experts_) + 1);
  wide_ ? wide_starts_.reserve(entries) : narrow_starts_.reserve(entries);
}

void EvenRows::add_row(std::span<const std::int64_t> counts) {
  MOEPLAN_CHECK(static_cast<std::int64_t>(counts.size()) == experts_, "one count per expert");
  std::int64_t start = 0;
  const auto add = [&] {
    wide_ ? wide_starts_.push_back(start) : narrow_starts_.push_back(static_cast<std::uint32_t>(start));
  };
  add();
  for (const std::int64_t count : counts) {
    MOEPLAN_CHECK(0 <= count && count <= tokens_, "an expert gets at most one copy of a token");
    start += count;
    add();
  }
  MOEPLAN_CHECK(start == tokens_ * top_k_, "every token has top_k copies");
  ++rows_;
}

template <class Use>
void EvenRows::with_starts(std::size_t row, const Use& use) const {
  MOEPLAN_CHECK(row < rows_, "no such row");
  const auto width = static_cast<std::size_t>(experts_) + 1;
  if (wide_)
    use(std::span<const std::int64_t>(wide_starts_).subspan(row * width, width));
  else
    use(std::span<const std::uint32_t>(narrow_starts_).subspan(row * width, width));
}

// Copies of each expert that go to tokens before `boundary`. The map never drops an entry, so the span stays valid.
std::span<const std::uint32_t> EvenRows::counts_below(std::size_t row, std::int64_t boundary,
                                                      std::vector<std::uint32_t>& scratch) const {
  const std::uint64_t key =
      static_cast<std::uint64_t>(row) * static_cast<std::uint64_t>(tokens_ + 1) + static_cast<std::uint64_t>(boundary);
  {
    const std::shared_lock lock(mutex_);
    if (const auto found = below_.find(key); found != below_.end()) return found->second;
  }
  scratch.resize(static_cast<std::size_t>(experts_));
  with_starts(row, [&](auto first) {
    std::int64_t before = 0;
    for (std::size_t e = 0; e < scratch.size(); ++e) {
      const std::int64_t after = copies_below(static_cast<std::int64_t>(first[e + 1]), tokens_, stride_, boundary);
      scratch[e] = static_cast<std::uint32_t>(after - before);
      before = after;
    }
  });
  const std::unique_lock lock(mutex_);
  if ((below_.size() + 1) * scratch.size() > kMostKeptValues) return scratch;
  return below_.try_emplace(key, scratch).first->second;  // another thread may have been first: equal values
}

void EvenRows::add_counts(std::size_t row, std::int64_t begin, std::int64_t end, std::span<std::int64_t> out) const {
  MOEPLAN_CHECK(0 <= begin && begin <= end && end <= tokens_, "slice must lie in the microbatch");
  MOEPLAN_CHECK(static_cast<std::int64_t>(out.size()) >= experts_, "out has a place for every expert");
  const auto count = static_cast<std::size_t>(experts_);
  std::vector<std::uint32_t> scratch;
  if (end == tokens_) {
    with_starts(row, [&](auto first) {
      for (std::size_t e = 0; e < count; ++e) out[e] += static_cast<std::int64_t>(first[e + 1] - first[e]);
    });
  } else if (end > 0) {
    const std::span<const std::uint32_t> below = counts_below(row, end, scratch);
    for (std::size_t e = 0; e < count; ++e) out[e] += below[e];
  }
  if (begin > 0) {
    const std::span<const std::uint32_t> below = counts_below(row, begin, scratch);
    for (std::size_t e = 0; e < count; ++e) out[e] -= below[e];
  }
}

void EvenRows::pairs(std::size_t row, std::int64_t begin, std::int64_t end, std::vector<Pair>& out) const {
  MOEPLAN_CHECK(0 <= begin && begin <= end && end <= tokens_, "slice must lie in the microbatch");
  std::vector<std::int64_t> first;
  with_starts(row, [&](auto starts) { first.assign(starts.begin(), starts.end()); });
  out.clear();
  out.reserve(static_cast<std::size_t>((end - begin) * top_k_));
  const float weight = 1.0f / static_cast<float>(top_k_);
  // A table copy -> expert pays off when much of it is read; a search per copy when the slice is short.
  std::vector<std::uint16_t> expert_of;
  if ((end - begin) * 8 >= tokens_) {
    expert_of.reserve(static_cast<std::size_t>(tokens_ * top_k_));
    for (std::size_t e = 0; e + 1 < first.size(); ++e) {
      expert_of.insert(expert_of.end(), static_cast<std::size_t>(first[e + 1] - first[e]),
                       static_cast<std::uint16_t>(e));
    }
  }
  std::int64_t copy_of_token = begin * inverse_ % tokens_;
  for (std::int64_t token = begin; token < end; ++token) {
    std::int64_t copy = copy_of_token;
    for (std::int64_t slot = 0; slot < top_k_; ++slot, copy += tokens_) {
      const auto expert =
          expert_of.empty()
              ? static_cast<std::uint16_t>(std::upper_bound(first.begin(), first.end(), copy) - first.begin() - 1)
              : expert_of[static_cast<std::size_t>(copy)];
      out.push_back({static_cast<std::int32_t>(token - begin), expert, weight});
    }
    copy_of_token += inverse_;
    if (copy_of_token >= tokens_) copy_of_token -= tokens_;
  }
}

}  // namespace moeplan::routing
