#include "policy/score.h"

#include <algorithm>
#include <cmath>

namespace moeplan::policy {
namespace {

constexpr std::uint64_t kDomain =
    0x4C524D6F45000001ull;         // keeps these draws apart from those of routing under the same seed
constexpr int kReplicaShift = 40;  // tokens of a microbatch stay below 2^40
constexpr double kLargest = 80.0;

}  // namespace

double portable_exp(double x) {
  constexpr double kLog2e = 1.44269504088896340735992468100;
  // ln 2 in two parts: the first has trailing zeros, so that its product with a small whole number is exact.
  constexpr double kLn2High = 6.93147180369123816490e-01;
  constexpr double kLn2Low = 1.90821492927058770002e-10;
  x = std::clamp(x, -kLargest, kLargest);
  const int exponent = static_cast<int>(x * kLog2e + (x < 0 ? -0.5 : 0.5));
  const double rest = (x - exponent * kLn2High) - exponent * kLn2Low;  // |rest| <= ln(2) / 2
  double sum = 1.0;
  for (int k = 14; k >= 1; --k) sum = 1.0 + rest * sum * (1.0 / k);  // Taylor series, Horner form
  return std::ldexp(sum, exponent);
}

TokenNorms::TokenNorms(std::uint64_t seed, double sigma, const GroupContext& context)
    : random_(seed ^ kDomain), sigma_(sigma) {
  const std::uint64_t step =
      random_.bits(static_cast<std::uint64_t>(context.iteration), static_cast<std::uint64_t>(context.microbatch));
  stream_ = random_.bits(step, static_cast<std::uint64_t>(context.moe_layer));
}

double TokenNorms::operator()(std::int64_t replica, std::int64_t token) const {
  if (sigma_ == 0) return 1.0;
  const std::uint64_t index =
      (static_cast<std::uint64_t>(replica) << kReplicaShift) + static_cast<std::uint64_t>(token);
  return portable_exp(sigma_ * random_.normal(stream_, index));
}

}  // namespace moeplan::policy
