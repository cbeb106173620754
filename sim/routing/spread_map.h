#pragma once
#include <cstdint>

// The arithmetic under spread.h for callers that use one map many times. Map: copy p -> token (p * stride) mod tokens.
namespace moeplan::routing {

// Inverse of `stride` modulo `tokens` (they are coprime): the first copy of token t is (t * inverse) mod tokens.
std::int64_t spread_inverse(std::int64_t stride, std::int64_t tokens);

// Number of copies p in [0, copies) whose token lies in [0, boundary). 0 <= boundary <= tokens <= 2^31.
std::int64_t copies_below(std::int64_t copies, std::int64_t tokens, std::int64_t stride, std::int64_t boundary);

}  // namespace moeplan::routing
