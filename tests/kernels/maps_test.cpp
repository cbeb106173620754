#include "kernels/maps.h"

#include <algorithm>

#include "maps_support.h"
#include "support.h"

namespace moeplan::kernels {
namespace {
using namespace testing;

// What a stable sort by expert gives.
Maps expected_maps(const Data<std::int32_t>& chosen, int experts) {
  Maps m;
  m.rows.assign(at(experts), 0);
  m.row_of_pair.assign(chosen.size(), -1);
  for (const std::int32_t e : chosen)
    if (e >= 0) ++m.rows[at(e)];
  m.offsets.assign(1, 0);
  for (int e = 0; e < experts; ++e) m.offsets.push_back(m.offsets.back() + m.rows[at(e)]);
  Data<std::int64_t> next(m.offsets);
  for (std::size_t p = 0; p < chosen.size(); ++p)
    if (chosen[p] >= 0) m.row_of_pair[p] = next[at(chosen[p])]++;
  return m;
}

Data<std::int32_t> draws(std::int64_t pairs, int experts) {
  Data<std::int32_t> chosen(at(pairs));
  for (std::int64_t p = 0; p < pairs; ++p) {
    const float u = random_value(21, static_cast<std::uint64_t>(p));  // every sixteenth pair has no row
    chosen[at(p)] = u > 0.875F ? -1 : static_cast<std::int32_t>((u + 1) / 1.875F * static_cast<float>(experts));
    chosen[at(p)] = std::min(chosen[at(p)], experts - 1);
  }
  return chosen;
}

void check(const Data<std::int32_t>& chosen, int experts) {
  const Maps forward = make_maps(chosen, experts, Order::forward), reverse = make_maps(chosen, experts, Order::reverse);
  const Maps expected = expected_maps(chosen, experts);
  for (const Maps* m : {&forward, &reverse}) {
    CHECK(m->rows == expected.rows);
    CHECK(m->offsets == expected.offsets);
    CHECK(m->row_of_pair == expected.row_of_pair);
  }
}
}  // namespace

TEST_CASE("pairs get the rows of a stable sort by expert, on both sides of a tile and of a block of threads") {
  for (const std::int64_t pairs : {1, 5, 1023, 1024, 1025, 5000})
    for (const int experts : {1, 3, 255, 256, 257}) check(draws(pairs, experts), experts);
}

TEST_CASE("more tiles than threads are summed, and each thread takes several") {
  // 257 tiles of 1024 pairs for 256 threads: two tiles a thread, and the last threads have none.
  check(draws(256 * kPairTile + 1, 4), 4);
}

TEST_CASE("all pairs of one expert, and none at all") {
  check(Data<std::int32_t>(3000, 2), 5);
  check(Data<std::int32_t>(10, -1), 5);
  check({}, 5);
}

}  // namespace moeplan::kernels
