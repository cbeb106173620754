#pragma once
#include "kernels/maps.h"
#include "support.h"

namespace moeplan::kernels::testing {

struct Maps {
  Data<std::int64_t> rows, offsets, row_of_pair;
  std::int64_t total() const { return offsets.back(); }
};

inline Maps make_maps(const Data<std::int32_t>& chosen, int experts, Order order = Order::forward) {
  const auto pairs = static_cast<std::int64_t>(chosen.size());
  const std::int64_t tiles = blocks_for(pairs, kPairTile);
  Data<std::int32_t> counts(at(tiles * experts));
  Maps m{Data<std::int64_t>(at(experts)), Data<std::int64_t>(at(experts + 1)), Data<std::int64_t>(chosen.size(), -2)};
  run_on_host(CountPairs{chosen.data(), counts.data(), pairs, experts}, order);
  run_on_host(SumTiles{counts.data(), m.rows.data(), tiles, experts}, order);
  run_on_host(SumExperts{m.rows.data(), m.offsets.data(), experts}, order);
  run_on_host(PlacePairs{chosen.data(), counts.data(), m.offsets.data(), m.row_of_pair.data(), pairs, experts}, order);
  return m;
}

// Experts of each token's pairs: `top_k` different ones, drawn without regard to balance.
inline Data<std::int32_t> distinct_choices(std::int64_t tokens, int experts, int top_k, std::uint64_t seed) {
  Data<std::int32_t> chosen;
  for (std::int64_t token = 0; token < tokens; ++token) {
    const float u = (random_value(seed, static_cast<std::uint64_t>(token)) + 1) / 2;
    const int first = static_cast<int>(u * u * static_cast<float>(experts)) % experts;
    for (int k = 0; k < top_k; ++k) chosen.push_back((first + k) % experts);
  }
  return chosen;
}

}  // namespace moeplan::kernels::testing
