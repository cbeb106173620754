#include "base/random.h"

#include <cmath>

namespace moeplan::base {
namespace {

constexpr std::uint32_t kMultiplier0 = 0xD2511F53u;
constexpr std::uint32_t kMultiplier1 = 0xCD9E8D57u;
constexpr std::uint32_t kWeyl0 = 0x9E3779B9u;
constexpr std::uint32_t kWeyl1 = 0xBB67AE85u;
constexpr int kRounds = 10;
constexpr double kLn2 = 0.693147180559945309417232121458;
constexpr double kTwoPi = 6.28318530717958647692528676656;

std::uint32_t low(std::uint64_t value) { return static_cast<std::uint32_t>(value); }
std::uint32_t high(std::uint64_t value) { return static_cast<std::uint32_t>(value >> 32); }
std::uint64_t join(std::uint32_t low_word, std::uint32_t high_word) {
  return (std::uint64_t{high_word} << 32) | low_word;
}

std::array<std::uint32_t, 4> block(std::uint64_t seed, std::uint64_t stream, std::uint64_t index) {
  return philox4x32({low(index), high(index), low(stream), high(stream)}, {low(seed), high(seed)});
}

// 52 bits and a half: the largest value, 1 - 2^-53, is still exact; with 53 bits it would round to 1.
double to_unit(std::uint64_t bits) { return (static_cast<double>(bits >> 12) + 0.5) * 0x1p-52; }

// Logarithm and cosine from the four basic operations alone: libm picks its code by the CPU (with or without fused
// multiply-add), and its last bit with it; these give the same bits everywhere. Errors are below 1e-15.

// ln(x) for 0 < x < 1: x = m 2^e with m in [sqrt(1/2), sqrt(2)), ln m = 2 atanh(s), s = (m-1)/(m+1), |s| < 0.172.
double portable_log(double x) {
  int exponent = 0;
  double m = std::frexp(x, &exponent);
  if (m < 0.70710678118654752) {
    m *= 2.0;
    --exponent;
  }
  const double s = (m - 1.0) / (m + 1.0);
  const double square = s * s;
  double sum = 0.0;
  for (int k = 23; k >= 1; k -= 2) sum = sum * square + 1.0 / k;
  return 2.0 * s * sum + exponent * kLn2;
}

// cos(2 pi u) for 0 <= u < 1: the nearest quarter turn is taken off exactly, the rest is a Taylor series to |t| = pi/4.
double portable_cos_turns(double u) {
  const int quarter = static_cast<int>(u * 4.0 + 0.5);
  const double t = kTwoPi * (u - 0.25 * quarter);
  const double square = t * t;
  const bool odd = quarter % 2 == 1;
  double sum = 1.0;  // Horner form of cos (even) or sin(t)/t (odd)
  for (int k = odd ? 19 : 18; k >= 2; k -= 2) sum = 1.0 - square / (k * (k - 1)) * sum;
  const double value = odd ? t * sum : sum;
  // cos(t + q pi/2): q = 0: cos, 1: -sin, 2: -cos, 3: sin
  const int turn = quarter % 4;
  return turn == 1 || turn == 2 ? -value : value;
}

}  // namespace

std::array<std::uint32_t, 4> philox4x32(std::array<std::uint32_t, 4> counter, std::array<std::uint32_t, 2> key) {
  for (int round = 0; round < kRounds; ++round) {
    const std::uint64_t product0 = std::uint64_t{kMultiplier0} * counter[0];
    const std::uint64_t product1 = std::uint64_t{kMultiplier1} * counter[2];
    counter = {high(product1) ^ counter[1] ^ key[0], low(product1), high(product0) ^ counter[3] ^ key[1],
               low(product0)};
    key[0] += kWeyl0;
    key[1] += kWeyl1;
  }
  return counter;
}

std::uint64_t Random::bits(std::uint64_t stream, std::uint64_t index) const {
  const std::array<std::uint32_t, 4> words = block(seed_, stream, index);
  return join(words[0], words[1]);
}

double Random::uniform(std::uint64_t stream, std::uint64_t index) const { return to_unit(bits(stream, index)); }

double Random::normal(std::uint64_t stream, std::uint64_t index) const {
  const std::array<std::uint32_t, 4> words = block(seed_, stream, index);
  const double radius = std::sqrt(-2.0 * portable_log(to_unit(join(words[0], words[1]))));
  return radius * portable_cos_turns(to_unit(join(words[2], words[3])));
}

}  // namespace moeplan::base
