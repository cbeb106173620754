#include "routing/spread.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "base/check.h"
#include "routing/spread_map.h"

namespace moeplan::routing {
namespace {

// 1 / golden ratio: multiples of it are spread as evenly as any fixed stride can (its continued fraction is all ones).
constexpr double kInverseGoldenRatio = 0.61803398874989484820;

// Largest token count for which every product below fits 32 bits; 32-bit division is several times faster.
constexpr std::int64_t kNarrowTokens = std::int64_t{1} << 15;

// Sum over i in [0, n) of floor((a i + b) / m), modulo the word size. Euclid-like: each turn swaps the roles of a and m
// (Graham, Knuth, Patashnik, Concrete Mathematics, 3.32 gives the idea; lattice points under a line).
template <typename Word>
Word floor_sum(Word n, Word m, Word a, Word b) {
  Word sum = 0;
  while (true) {
    if (a >= m) {
      sum += n * (n - 1) / 2 * (a / m);
      a %= m;
    }
    if (b >= m) {
      sum += n * (b / m);
      b %= m;
    }
    const Word highest = a * n + b;
    if (highest < m) return sum;
    n = highest / m;
    b = highest % m;
    std::swap(m, a);
  }
}

// Copies below for copies < tokens. An x lies below the boundary t exactly when floor((x + N) / N) - floor((x + N - t)
// / N) = 1.
template <typename Word>
std::int64_t partial_below(std::int64_t copies, std::int64_t tokens, std::int64_t stride, std::int64_t boundary) {
  const auto n = static_cast<Word>(copies);
  if (n == 0) return 0;
  const auto m = static_cast<Word>(tokens);
  const auto a = static_cast<Word>(stride);
  const Word difference = floor_sum<Word>(n, m, a, m) - floor_sum<Word>(n, m, a, static_cast<Word>(tokens - boundary));
  return static_cast<std::int64_t>(difference);
}

}  // namespace

std::int64_t spread_stride(std::int64_t tokens) {
  if (tokens <= 2) return 1;
  const auto wanted = static_cast<std::int64_t>(static_cast<double>(tokens) * kInverseGoldenRatio + 0.5);
  for (std::int64_t distance = 0;; ++distance) {  // ends at the latest at stride 1
    if (wanted + distance < tokens && std::gcd(wanted + distance, tokens) == 1) return wanted + distance;
    if (wanted - distance >= 1 && std::gcd(wanted - distance, tokens) == 1) return wanted - distance;
  }
}

std::int64_t spread_inverse(std::int64_t stride, std::int64_t tokens) {
  // Extended Euclid: invariant stride * x = a, stride * y = b (mod tokens).
  std::int64_t a = stride % tokens, b = tokens, x = 1, y = 0;
  while (a > 1) {
    const std::int64_t quotient = b / a;
    b -= quotient * a;
    y -= quotient * x;
    std::swap(a, b);
    std::swap(x, y);
  }
  return ((x % tokens) + tokens) % tokens;
}

std::int64_t copies_below(std::int64_t copies, std::int64_t tokens, std::int64_t stride, std::int64_t boundary) {
  const std::int64_t rounds = copies / tokens;  // every full round meets each token once
  const std::int64_t rest = copies % tokens;
  const std::int64_t partial = tokens <= kNarrowTokens ? partial_below<std::uint32_t>(rest, tokens, stride, boundary)
                                                       : partial_below<std::uint64_t>(rest, tokens, stride, boundary);
  return rounds * boundary + partial;
}

std::int64_t copies_in_slice(std::int64_t first, std::int64_t last, std::int64_t tokens, std::int64_t begin,
                             std::int64_t end) {
  MOEPLAN_CHECK(0 <= first && first <= last && tokens >= 1, "copies must be a range");
  MOEPLAN_CHECK(0 <= begin && begin <= end && end <= tokens, "slice must lie in the tokens");
  const std::int64_t stride = spread_stride(tokens);
  const auto below = [&](std::int64_t copies) {
    return copies_below(copies, tokens, stride, end) - copies_below(copies, tokens, stride, begin);
  };
  return below(last) - below(first);
}

void experts_of_token(std::span<const std::int64_t> starts, std::int64_t tokens, std::int64_t token,
                      std::span<std::uint16_t> out) {
  MOEPLAN_CHECK(tokens >= 1 && 0 <= token && token < tokens, "token must be one of the tokens");
  std::int64_t copy = token * spread_inverse(spread_stride(tokens), tokens) % tokens;
  for (std::uint16_t& expert : out) {
    const auto next = std::upper_bound(starts.begin(), starts.end(), copy);
    expert = static_cast<std::uint16_t>(next - starts.begin() - 1);
    copy += tokens;
  }
}

}  // namespace moeplan::routing
