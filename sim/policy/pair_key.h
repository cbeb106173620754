#pragma once
#include <bit>
#include <cstdint>
#include <limits>

namespace moeplan::policy {

// A score and a token in one number that orders like (score up, token down): the bits of a float that is not negative
// ascend with its value. No two pairs of one expert have the same key.
using Key = std::uint64_t;
inline constexpr Key kKeepAll = 0;
inline constexpr Key kKeepNone = std::numeric_limits<Key>::max();
inline constexpr std::uint32_t kLastToken = std::numeric_limits<std::uint32_t>::max();

inline Key make_key(float score, std::int64_t token) {
  return (Key{std::bit_cast<std::uint32_t>(score)} << 32) | (kLastToken - static_cast<std::uint32_t>(token));
}
inline std::int64_t token_of(Key key) { return kLastToken - static_cast<std::uint32_t>(key); }
inline double score_of(Key key) {
  return static_cast<double>(std::bit_cast<float>(static_cast<std::uint32_t>(key >> 32)));
}

}  // namespace moeplan::policy
