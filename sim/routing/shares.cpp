#include "routing/shares.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/check.h"
#include "base/random.h"

namespace moeplan::routing {
namespace {

// Keeps these draws apart from those of other users of the same seed.
constexpr std::uint64_t kSharesStream = std::uint64_t{0x10AD} << 48;

// exp(x) for x <= 0 from the four basic operations alone: libm's last bit depends on the CPU. Relative error < 1e-15.
double portable_exp(double x) {
  constexpr double kLn2High = 6.93147180369123816490e-01;  // ends in zeros: whole multiples are exact
  constexpr double kLn2Low = 1.90821492927058770002e-10;
  if (x < -745.0) return 0.0;
  const double turns = std::floor(x / (kLn2High + kLn2Low) + 0.5);
  const double rest = (x - turns * kLn2High) - turns * kLn2Low;  // |rest| <= 0.35
  double sum = 1.0;
  for (int k = 14; k >= 1; --k) sum = 1.0 + rest / k * sum;
  return std::ldexp(sum, static_cast<int>(turns));
}

std::vector<double> standardised_normals(std::int64_t experts, std::uint64_t seed, std::int64_t layer) {
  const base::Random random(seed);
  std::vector<double> z;
  for (std::int64_t e = 0; e < experts; ++e) {
    z.push_back(random.normal(kSharesStream + static_cast<std::uint64_t>(layer), static_cast<std::uint64_t>(e)));
  }
  const double size = static_cast<double>(experts);
  const double mean = std::accumulate(z.begin(), z.end(), 0.0) / size;
  double squares = 0.0;
  for (double& value : z) {
    value -= mean;
    squares += value * value;
  }
  const double deviation = std::sqrt(squares / size);
  if (deviation > 0.0) {  // one expert has none
    for (double& value : z) value /= deviation;
  }
  return z;
}

}  // namespace

std::vector<double> lognormal_inclusion(std::int64_t experts, std::int64_t top_k, double sigma, std::uint64_t seed,
                                        std::int64_t layer) {
  const std::vector<double> z = standardised_normals(experts, seed, layer);
  std::vector<std::size_t> order(z.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(),
            [&](std::size_t a, std::size_t b) { return z[a] != z[b] ? z[a] > z[b] : a < b; });
  std::vector<double> inclusion(z.size(), 1.0);
  // The hottest experts are capped one after the other. Each turn scales by the hottest expert that is left, so that no
  // sigma, however large, overflows or leaves nothing to divide by.
  for (std::size_t capped = 0; capped < order.size(); ++capped) {
    double sum = 0.0;
    for (std::size_t i = capped; i < order.size(); ++i) sum += portable_exp(sigma * (z[order[i]] - z[order[capped]]));
    const double left = static_cast<double>(top_k) - static_cast<double>(capped);
    if (left >= sum) continue;  // this one would exceed 1
    for (std::size_t i = capped; i < order.size(); ++i) {
      inclusion[order[i]] = left / sum * portable_exp(sigma * (z[order[i]] - z[order[capped]]));
    }
    break;
  }
  return inclusion;
}

std::vector<std::int64_t> counts_of_inclusion(const std::vector<double>& inclusion, std::int64_t tokens,
                                              std::int64_t top_k) {
  std::vector<std::int64_t> counts;
  std::vector<double> remainder;
  std::int64_t missing = tokens * top_k;
  for (const double probability : inclusion) {
    const double exact = probability * static_cast<double>(tokens);
    const std::int64_t whole = std::min(tokens, static_cast<std::int64_t>(exact));
    counts.push_back(whole);
    remainder.push_back(whole == tokens ? -1.0 : exact - static_cast<double>(whole));
    missing -= whole;
  }
  std::vector<std::size_t> order(counts.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(),
                   [&](std::size_t a, std::size_t b) { return remainder[a] > remainder[b]; });
  MOEPLAN_CHECK(0 <= missing && missing <= static_cast<std::int64_t>(order.size()), "shares do not sum to top_k");
  for (std::int64_t i = 0; i < missing; ++i) ++counts[order[static_cast<std::size_t>(i)]];
  return counts;
}

}  // namespace moeplan::routing
