#include "cost/fair_share.h"

#include <doctest/doctest.h>

#include "cost/plain_max_min.h"

namespace moeplan::cost {
namespace {

using doctest::Approx;

FlowClasses classes(const std::vector<double>& capacity, const std::vector<test::PlainFlow>& flows) {
  FlowClasses result;
  result.capacity = capacity;
  for (const test::PlainFlow& flow : flows) {
    std::vector<std::pair<std::uint32_t, double>> links;
    for (const std::size_t link : flow.links) links.emplace_back(static_cast<std::uint32_t>(link), 1.0);
    result.add(flow.bytes, links);
  }
  return result;
}

// Numbers in [0, 1) from a counter.
double drawn_at(std::uint64_t seed, std::uint64_t at) {
  std::uint64_t x = seed * 0x9e3779b97f4a7c15ULL + at;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return static_cast<double>((x ^ (x >> 31)) >> 11) * 0x1p-53;
}

}  // namespace

TEST_CASE("two transfers on a link halve it until the shorter ends") {
  // 100 B/s: 100 B and 300 B at 50 B/s; the first ends after 2 s, the other has 200 B left at 100 B/s: 4 s.
  const FairShare share = share_fairly(classes({100}, {{100, {0}}, {300, {0}}}), 0);
  CHECK(share.finish_s[0] == Approx(2));
  CHECK(share.finish_s[1] == Approx(4));
}

TEST_CASE("what a transfer cannot use on one link goes to the others there") {
  // Links of 100, 100 and 20 B/s. A crosses 0 and 2, B crosses 0, C crosses 1 and 2. A and C get 10 B/s each, B 90.
  // A: 100 B take 10 s. B: 90 B take 1 s. C: 150 B: 100 by 10 s at 10 B/s, then 50 at 20 B/s: 12.5 s.
  const FairShare share = share_fairly(classes({100, 100, 20}, {{100, {0, 2}}, {90, {0}}, {150, {1, 2}}}), 0);
  CHECK(share.finish_s[0] == Approx(10));
  CHECK(share.finish_s[1] == Approx(1));
  CHECK(share.finish_s[2] == Approx(12.5));
}

TEST_CASE("a class of several transfers counts as often on its links") {
  // Four of 100 B on a link of 100 B/s, each over a link of its own of 100 B/s: 4 s.
  FlowClasses flows;
  flows.capacity = {100, 100};
  flows.add(100, {{0, 4.0}, {1, 1.0}});
  CHECK(share_fairly(flows, 0).finish_s[0] == Approx(4));
}

TEST_CASE("no transfers take no time") {
  FlowClasses flows;
  flows.capacity = {100};
  CHECK(share_fairly(flows, 0).finish_s.empty());
}

TEST_CASE(
    "against the slow form: equal times at tolerance 0, within a tenth of a percent, and never below the port "
    "bound, at that of exchanges") {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    const std::size_t links = 3 + seed % 7, count = 5 + seed % 30;
    std::vector<double> capacity(links), load(links);
    for (std::size_t l = 0; l < links; ++l) capacity[l] = 10 + 90 * drawn_at(seed, l);
    std::vector<test::PlainFlow> flows(count);
    for (std::size_t f = 0; f < count; ++f) {
      flows[f].bytes = 1 + 1000 * drawn_at(seed, 100 + f) * drawn_at(seed, 200 + f);
      for (std::size_t l = 0; l < links; ++l)
        if (l == f % links || drawn_at(seed, 1000 + f * links + l) < 0.3) flows[f].links.push_back(l);
      for (const std::size_t l : flows[f].links) load[l] += flows[f].bytes;
    }
    double bound = 0;
    for (std::size_t l = 0; l < links; ++l) bound = std::max(bound, load[l] / capacity[l]);
    const std::vector<double> reference = test::plain_max_min(flows, capacity);
    const FairShare exact = share_fairly(classes(capacity, flows), 0);
    CAPTURE(seed);
    for (std::size_t f = 0; f < count; ++f) CHECK(exact.finish_s[f] == Approx(reference[f]).epsilon(1e-7));
    const FairShare quick = share_fairly(classes(capacity, flows), 4e-4);
    const double makespan = *std::max_element(quick.finish_s.begin(), quick.finish_s.end());
    CHECK(makespan == Approx(*std::max_element(reference.begin(), reference.end())).epsilon(1e-3));
    CHECK(makespan >= bound * (1 - 1e-9));
  }
}

}  // namespace moeplan::cost
