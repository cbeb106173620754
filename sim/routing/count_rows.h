#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace moeplan::routing {

inline constexpr std::int64_t kLargestSum = 1'000'000'000'000'000;  // of a row; keeps scaling inside 128 bits
inline constexpr std::size_t kMostExperts = 65'535;                 // ids have 16 bits
inline constexpr std::int64_t kMostTopK = 64;                       // experts a token

// What is wrong with the counts of one row: a negative one, a sum above 10^15, a sum of 0. "" when nothing is.
std::string row_fault(std::span<const std::int64_t> counts);

std::int64_t sum_of(std::span<const std::int64_t> counts);

}  // namespace moeplan::routing
