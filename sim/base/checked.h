#pragma once
#include <cstdint>
#include <optional>

// Arithmetic on sizes that users choose: overflow is seen, never wrapped.
namespace moeplan::base {

std::optional<std::int64_t> checked_add(std::int64_t a, std::int64_t b);
std::optional<std::int64_t> checked_multiply(std::int64_t a, std::int64_t b);

// Smallest multiple of `step` that is >= value; value >= 0, step >= 1.
constexpr std::int64_t round_up(std::int64_t value, std::int64_t step) { return (value + step - 1) / step * step; }
// ceil(a / b) for a >= 0, b >= 1.
constexpr std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

}  // namespace moeplan::base
