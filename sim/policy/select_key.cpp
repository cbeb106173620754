#include "policy/select_key.h"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <vector>

#include "base/check.h"

namespace moeplan::policy {
namespace {

constexpr int kRangeBits = 11;
constexpr std::size_t kFew = 512;  // below, counting does not pay

}  // namespace

std::uint64_t select_key(std::span<const std::uint64_t> keys, std::size_t rank) {
  MOEPLAN_CHECK(rank >= 1 && rank <= keys.size(), "rank of a key");
  std::vector<std::uint64_t> rest;
  while (keys.size() > kFew) {
    std::uint64_t least = keys.front();
    std::uint64_t most = keys.front();
    for (const std::uint64_t key : keys) {
      least = std::min(least, key);
      most = std::max(most, key);
    }
    // Ranges of 2^shift keys, as small as the counters reach: with one key a range the answer is found.
    const int shift = std::max(0, static_cast<int>(std::bit_width(most - least)) - kRangeBits);
    std::array<std::uint32_t, std::size_t{1} << kRangeBits> counts{};
    for (const std::uint64_t key : keys) ++counts[(key - least) >> shift];
    std::size_t range = (most - least) >> shift;
    while (counts[range] < rank) rank -= counts[range--];
    if (shift == 0) return least + range;
    std::vector<std::uint64_t> inside;
    inside.reserve(counts[range]);
    for (const std::uint64_t key : keys) {
      if (((key - least) >> shift) == range) inside.push_back(key);
    }
    rest = std::move(inside);
    keys = rest;
  }
  std::vector<std::uint64_t> few(keys.begin(), keys.end());
  const auto answer = few.begin() + static_cast<std::ptrdiff_t>(rank - 1);
  std::nth_element(few.begin(), answer, few.end(), std::greater<>());
  return *answer;
}

}  // namespace moeplan::policy
