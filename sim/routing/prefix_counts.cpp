#include "routing/prefix_counts.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace moeplan::routing {

PrefixCounts::PrefixCounts(std::span<const std::uint16_t> choices, std::int64_t experts, std::int64_t top_k)
    : choices_(choices),
      experts_(experts),
      top_k_(top_k),
      tokens_(static_cast<std::int64_t>(choices.size()) / top_k),
      // A row of the table has 4 bytes an expert, a block of choices 2 top_k bytes a token.
      block_(static_cast<std::int64_t>(
          std::bit_ceil(static_cast<std::uint64_t>(std::max<std::int64_t>(64, 4 * experts / top_k))))) {
  const auto width = static_cast<std::size_t>(experts_);
  std::vector<std::uint32_t> sum(width, 0);
  below_.reserve(static_cast<std::size_t>(tokens_ / block_ + 1) * width);
  below_.insert(below_.end(), sum.begin(), sum.end());
  const auto step = static_cast<std::size_t>(block_ * top_k_);
  for (std::size_t first = 0; first + step <= choices_.size(); first += step) {
    for (const std::uint16_t expert : choices_.subspan(first, step)) {
      MOEPLAN_CHECK(expert < width, "expert ids are below the number of experts");
      ++sum[expert];
    }
    below_.insert(below_.end(), sum.begin(), sum.end());
  }
  for (const std::uint16_t expert : choices_.subspan(choices_.size() / step * step)) {
    MOEPLAN_CHECK(expert < width, "expert ids are below the number of experts");
  }
}

std::int64_t PrefixCounts::nearest_block(std::int64_t token) const {
  return std::min((token + block_ / 2) / block_, tokens_ / block_);
}

void PrefixCounts::add_tokens(std::int64_t begin, std::int64_t end, std::int64_t sign,
                              std::span<std::int64_t> out) const {
  const auto first = static_cast<std::size_t>(begin * top_k_), last = static_cast<std::size_t>(end * top_k_);
  for (std::size_t i = first; i < last; ++i) out[choices_[i]] += sign;
}

void PrefixCounts::add(std::int64_t begin, std::int64_t end, std::span<std::int64_t> out) const {
  MOEPLAN_CHECK(0 <= begin && begin <= end && end <= tokens_, "window must lie in the trace");
  if (end - begin <= block_) return add_tokens(begin, end, 1, out);
  const std::int64_t low = nearest_block(begin), high = nearest_block(end);
  const auto width = static_cast<std::size_t>(experts_);
  const std::uint32_t* below_low = below_.data() + static_cast<std::size_t>(low) * width;
  const std::uint32_t* below_high = below_.data() + static_cast<std::size_t>(high) * width;
  for (std::size_t e = 0; e < width; ++e) out[e] += below_high[e] - below_low[e];
  // The block borders lie near, but not on, the ends of the window.
  if (begin < low * block_) add_tokens(begin, low * block_, 1, out);
  if (begin > low * block_) add_tokens(low * block_, begin, -1, out);
  if (end > high * block_) add_tokens(high * block_, end, 1, out);
  if (end < high * block_) add_tokens(end, high * block_, -1, out);
}

}  // namespace moeplan::routing
