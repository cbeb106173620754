#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

namespace moeplan::policy {

// The rank-th largest (rank 1: the largest) of `keys`; 1 <= rank <= keys.size(). One pass counts keys in evenly cut
// ranges, and only the range that holds the answer is looked at closer: several times faster than std::nth_element on
// the scores of one expert.
std::uint64_t select_key(std::span<const std::uint64_t> keys, std::size_t rank);

}  // namespace moeplan::policy
