#include "engine/rendezvous_table.h"

#include <doctest/doctest.h>

#include <set>

#include "base/random.h"

namespace moeplan::engine {

TEST_CASE("rendezvous table: the last of the members completes it, whatever the order of arrival") {
  RendezvousTable table;
  CHECK_FALSE(table.arrive(9, 3, {2, 0, 10}));
  CHECK_FALSE(table.arrive(9, 3, {0, 5, 20}));
  REQUIRE(table.waiting().size() == 1);
  CHECK(table.waiting()[0].key == 9);
  CHECK(table.waiting()[0].arrived == 2);
  CHECK(table.waiting()[0].first_rank == 0);
  REQUIRE(table.arrive(9, 3, {1, 7, 15}));
  REQUIRE(table.last().size() == 3);
  CHECK(table.last()[0].sequence == 5);
  CHECK(table.last()[1].sequence == 7);
  CHECK(table.last()[2].sequence == 0);
  CHECK(table.waiting().empty());
}

TEST_CASE("rendezvous table: keys that come and go stay found while the table grows and shrinks") {
  // Against a set of the open keys: the second arrival of a key must complete it, the first must not.
  RendezvousTable table;
  std::set<std::int64_t> open;
  const base::Random random(3);
  for (std::uint64_t i = 0; i < 20000; ++i) {
    // Phases with a wide and with a narrow range of keys; multiples of 64 gather in few places of a weak hash.
    const std::uint64_t range = (i / 4000) % 2 == 0 ? 1500 : 40;
    const std::int64_t key = static_cast<std::int64_t>(random.bits(0, i) % range) * 64;
    const bool second = open.count(key) != 0;
    REQUIRE(table.arrive(key, 2, {second ? 1 : 0, static_cast<std::int64_t>(i), key}) == second);
    if (second) {
      REQUIRE(table.last()[0].ready_ps == key);
      open.erase(key);
    } else {
      open.insert(key);
    }
    if (i % 500 == 0) REQUIRE(table.waiting().size() == open.size());
  }
  CHECK(open.size() > 100);
}

}  // namespace moeplan::engine
