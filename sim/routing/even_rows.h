#pragma once
#include <cstdint>
#include <shared_mutex>
#include <span>
#include <unordered_map>
#include <vector>

#include "routing/loads.h"

namespace moeplan::routing {

// Rows of counts that are spread evenly over the tokens of one microbatch (spread.h): what every source does that knows
// counts but no tokens. Cumulative counts at slice boundaries are kept once they were asked for. Thread-safe after the
// last add_row.
class EvenRows {
 public:
  EvenRows(std::int64_t tokens, std::int64_t experts, std::int64_t top_k);

  // counts: one per expert, each in [0, tokens], together tokens * top_k.
  void add_row(std::span<const std::int64_t> counts);
  void reserve(std::size_t rows);
  std::size_t size() const { return rows_; }

  // Tokens [begin, end) of the microbatch.
  void add_counts(std::size_t row, std::int64_t begin, std::int64_t end, std::span<std::int64_t> out) const;
  void pairs(std::size_t row, std::int64_t begin, std::int64_t end, std::vector<Pair>& out) const;

 private:
  // first[e] of a row: its first copy of expert e, for e = 0 .. experts.
  template <class Use>
  void with_starts(std::size_t row, const Use& use) const;
  std::span<const std::uint32_t> counts_below(std::size_t row, std::int64_t boundary,
                                              std::vector<std::uint32_t>& scratch) const;

  std::int64_t tokens_, experts_, top_k_, stride_, inverse_;
  std::size_t rows_ = 0;
  // [row * (experts + 1) + e], in one of them: four bytes are enough for the copies of nearly all microbatches.
  bool wide_;
  std::vector<std::uint32_t> narrow_starts_;
  std::vector<std::int64_t> wide_starts_;
  mutable std::shared_mutex mutex_;
  mutable std::unordered_map<std::uint64_t, std::vector<std::uint32_t>> below_;  // by row and boundary; looked up only
};

}  // namespace moeplan::routing
