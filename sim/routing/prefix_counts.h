#pragma once
#include <cstdint>
#include <span>
#include <vector>

namespace moeplan::routing {

// Tokens per expert of any window of one layer's tokens in constant time: cumulative counts at every block-th token,
// the rest is counted. The table is at most half as large as the choices themselves.
class PrefixCounts {
 public:
  // choices: [token * top_k + slot]; must outlive this object. Ids are below `experts`.
  PrefixCounts(std::span<const std::uint16_t> choices, std::int64_t experts, std::int64_t top_k);

  // Adds the tokens [begin, end); out has at least `experts` entries.
  void add(std::int64_t begin, std::int64_t end, std::span<std::int64_t> out) const;

 private:
  void add_tokens(std::int64_t begin, std::int64_t end, std::int64_t sign, std::span<std::int64_t> out) const;
  std::int64_t nearest_block(std::int64_t token) const;

  std::span<const std::uint16_t> choices_;
  std::int64_t experts_, top_k_, tokens_, block_;
  std::vector<std::uint32_t> below_;  // [i * experts + e]: tokens before i * block that chose e
};

}  // namespace moeplan::routing
