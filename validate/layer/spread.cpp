#include "layer/spread.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace moeplan::layer {

std::vector<std::int64_t> spread_rows(const std::vector<double>& weights, std::int64_t total, std::int64_t most_each) {
  const auto most = static_cast<double>(most_each);
  std::vector<double> shares(weights.size(), 0);
  std::vector<bool> full(weights.size(), false);
  // Each round fills the experts that would get more than a row a token; the others share the rest anew.
  for (bool again = true; again;) {
    again = false;
    double left = static_cast<double>(total), weight = 0;
    std::size_t open = 0;
    for (std::size_t e = 0; e < weights.size(); ++e) {
      left -= full[e] ? most : 0;
      weight += full[e] ? 0 : weights[e];
      open += full[e] ? 0 : 1;
    }
    for (std::size_t e = 0; e < weights.size(); ++e) {
      if (full[e]) continue;
      // Where only experts of weight 0 are left they share alike.
      shares[e] = weight > 0 ? left * weights[e] / weight : left / static_cast<double>(open);
      if (shares[e] > most) {
        shares[e] = most;
        full[e] = again = true;
      }
    }
  }
  std::vector<std::int64_t> rows;
  std::vector<std::size_t> order(weights.size());
  for (const double share : shares) rows.push_back(static_cast<std::int64_t>(std::floor(share + 1e-9)));
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return shares[a] - static_cast<double>(rows[a]) > shares[b] - static_cast<double>(rows[b]);
  });
  std::int64_t left = total - std::accumulate(rows.begin(), rows.end(), std::int64_t{0});
  for (std::size_t i = 0; left > 0; i = (i + 1) % order.size()) {
    if (rows[order[i]] >= most_each) continue;
    ++rows[order[i]];
    --left;
  }
  return rows;
}

std::vector<double> zipf_weights(int experts, double exponent) {
  std::vector<double> weights;
  for (int rank = 1; rank <= experts; ++rank) weights.push_back(std::pow(rank, -exponent));
  return weights;
}

}  // namespace moeplan::layer
