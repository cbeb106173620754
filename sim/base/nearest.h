#pragma once
#include <span>
#include <string>
#include <string_view>

namespace moeplan::base {

// The name of `known` that is nearest to `word` by edit distance (case-insensitive, '-' and '_' alike), or "" when none
// is near enough to be a slip (distance > max(2, a third of the word), or no character in common). A swap of two
// neighbours counts as one edit. Ties: the first in `known`.
std::string nearest_name(std::string_view word, std::span<const std::string> known);
// "did you mean 'X'?" or "" when nothing is near.
std::string nearest_hint(std::string_view word, std::span<const std::string> known);
// "a, b, c" for "expected one of ...".
std::string join_names(std::span<const std::string> names);

}  // namespace moeplan::base
