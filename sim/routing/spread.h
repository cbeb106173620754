#pragma once
#include <cstdint>
#include <span>

// Spreading counts evenly over tokens, exactly. With counts n_e that sum to N * k and no n_e > N, copy p (copies sorted by expert) goes to token
// (p * g) mod N with g coprime to N near N times the golden ratio. Every token then gets exactly k copies, of distinct experts, and
// any slice of tokens receives a nearly equal share of every expert.
namespace moeplan::routing {

std::int64_t spread_stride(std::int64_t tokens);  // g; 1 when tokens <= 2

// Number of copies p in [first, last) whose token (p * g) mod N lies in [begin, end). O(log N) (floor sums). N <= 2^31, last <= N * 64.
std::int64_t copies_in_slice(std::int64_t first, std::int64_t last, std::int64_t tokens, std::int64_t begin, std::int64_t end);

// Experts of token t, ascending by copy: inverse of the map; `starts` are the cumulative counts (size experts + 1), out has k entries.
void experts_of_token(std::span<const std::int64_t> starts, std::int64_t tokens, std::int64_t token, std::span<std::uint16_t> out);

}  // namespace moeplan::routing
