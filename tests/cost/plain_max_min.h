#pragma once
#include <algorithm>
#include <vector>

// The slow, obvious form of max-min fair sharing: every transfer by itself, rates worked out anew at every end.
namespace moeplan::cost::test {

struct PlainFlow {
  double bytes = 0;
  std::vector<std::size_t> links;
};

// Raises all rates together; a link that is full stops the transfers on it.
inline std::vector<double> plain_rates(const std::vector<PlainFlow>& flows, const std::vector<double>& left,
                                       const std::vector<double>& capacity) {
  std::vector<double> rates(flows.size(), -1);
  for (std::size_t f = 0; f < flows.size(); ++f)
    if (left[f] <= 0) rates[f] = 0;
  for (;;) {
    double lowest = -1;
    std::size_t full = 0;
    for (std::size_t l = 0; l < capacity.size(); ++l) {
      double free = capacity[l];
      int open = 0;
      for (std::size_t f = 0; f < flows.size(); ++f) {
        if (std::find(flows[f].links.begin(), flows[f].links.end(), l) == flows[f].links.end()) continue;
        if (rates[f] < 0) {
          ++open;
        } else {
          free -= rates[f];
        }
      }
      if (open > 0 && (lowest < 0 || free / open < lowest)) {
        lowest = free / open;
        full = l;
      }
    }
    if (lowest < 0) return rates;
    for (std::size_t f = 0; f < flows.size(); ++f)
      if (rates[f] < 0 && std::find(flows[f].links.begin(), flows[f].links.end(), full) != flows[f].links.end())
        rates[f] = lowest;
  }
}

// When each transfer ends.
inline std::vector<double> plain_max_min(const std::vector<PlainFlow>& flows, const std::vector<double>& capacity) {
  std::vector<double> left, end(flows.size(), 0);
  for (const PlainFlow& flow : flows) left.push_back(flow.bytes);
  for (double now = 0;;) {
    const std::vector<double> rates = plain_rates(flows, left, capacity);
    double soonest = -1;
    for (std::size_t f = 0; f < flows.size(); ++f)
      if (left[f] > 0 && (soonest < 0 || left[f] / rates[f] < soonest)) soonest = left[f] / rates[f];
    if (soonest < 0) return end;
    now += soonest;
    for (std::size_t f = 0; f < flows.size(); ++f) {
      if (left[f] <= 0) continue;
      left[f] -= rates[f] * soonest;
      if (left[f] > 1e-9 * flows[f].bytes) continue;
      left[f] = 0;
      end[f] = now;
    }
  }
}

}  // namespace moeplan::cost::test
