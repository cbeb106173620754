#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

namespace moeplan::scenario {

// Integers, + - * / % and parentheses, as in $(( )). Nothing for anything else, a division by zero or an overflow.
std::optional<std::int64_t> evaluate_arithmetic(std::string_view text);

}  // namespace moeplan::scenario
