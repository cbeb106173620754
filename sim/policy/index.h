#pragma once
#include <cstddef>
#include <cstdint>

namespace moeplan::policy {

// Counts and ids have a sign, places in a vector have none.
constexpr std::size_t at(std::int64_t index) { return static_cast<std::size_t>(index); }

}  // namespace moeplan::policy
