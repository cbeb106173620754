#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/random.h"
#include "policy/lrmoe.h"

using namespace moeplan;
using namespace moeplan::policy;

namespace {

using Hosts = std::vector<std::vector<std::int32_t>>;
using Rows = std::vector<std::int64_t>;

std::int64_t sum_of(const Rows& rows) { return std::accumulate(rows.begin(), rows.end(), std::int64_t{0}); }

Hosts homes(std::size_t experts, std::size_t members) {
  Hosts hosts;
  for (std::size_t expert = 0; expert < experts; ++expert)
    hosts.push_back({static_cast<std::int32_t>(expert / (experts / members))});
  return hosts;
}

Rows loads_of(const Rows& rows, const Hosts& hosts, std::size_t members) {
  Rows loads(members, 0);
  const auto shares = capacity_aware_routing(rows, hosts, static_cast<std::int64_t>(members));
  for (std::size_t expert = 0; expert < hosts.size(); ++expert) {
    for (std::size_t i = 0; i < hosts[expert].size(); ++i)
      loads[static_cast<std::size_t>(hosts[expert][i])] += shares[expert][i];
  }
  return loads;
}

// 4 members with 4 experts each; steep: the hottest expert has up to 20 times the mean.
Rows random_counts(const base::Random& random, std::uint64_t number) {
  Rows counts;
  for (std::uint64_t expert = 0; expert < 16; ++expert) {
    const double u = random.uniform(number, expert);
    counts.push_back(static_cast<std::int64_t>(3000 * std::pow(u, 1.0 + static_cast<double>(number % 8))));
  }
  return counts;
}

Rows caps_of(const Rows& counts, double tau, std::size_t members) {
  const double mean = static_cast<double>(sum_of(counts)) / static_cast<double>(members);
  return Rows(members, static_cast<std::int64_t>(tau * mean));
}

std::int64_t kept_with_room(const Quotas& quotas) { return sum_of(quotas.rows) + sum_of(quotas.room); }

}  // namespace

TEST_CASE("nothing is cut where every member is within its cap") {
  const Rows counts = {60, 40, 90, 10};
  const Quotas quotas = water_fill(counts, homes(4, 2), Rows{100, 100}, 1, 0.5);
  CHECK(quotas.rows == counts);
  CHECK(quotas.room == Rows{0, 0});
  CHECK_FALSE(quotas.floor_binds);
}

TEST_CASE("one row above the cap lowers the level of the hot experts only") {
  // Member 0 holds 60 + 41 = 101 > 100: the largest level with min(60, t) + 41 <= 100 is 59. It also cuts the 90 of
  // member 1, which has room for those 31.
  const Quotas quotas = water_fill(Rows{60, 41, 90, 10}, homes(4, 2), Rows{100, 100}, 1, 0.5);
  CHECK(quotas.theta == 59);
  CHECK(quotas.rows == Rows{59, 41, 59, 10});
  CHECK(quotas.room == Rows{0, 31});
  CHECK_FALSE(quotas.floor_binds);
}

TEST_CASE("a level shared by two experts leaves the rounding as room") {
  // 2 t <= 101 gives t = 50, and one row of room.
  const Quotas quotas = water_fill(Rows{80, 70, 10, 10}, homes(4, 2), Rows{101, 101}, 1, 0.1);
  CHECK(quotas.rows == Rows{50, 50, 10, 10});
  CHECK(quotas.room == Rows{1, 0});
}

TEST_CASE("an expert with two hosts keeps twice the level") {
  // Levels t: expert 0 over members 0 and 1 keeps min(100, 2 t), half each beside expert 1 (t on member 0) and expert 2
  // (10 on member 1). t = 30: 60 + 30 + 10 = 100 = 50 + 50, the caps are met; t = 31: 62 + 31 + 10 = 103 > 100.
  const Quotas quotas = water_fill(Rows{100, 80, 10}, Hosts{{0, 1}, {0}, {1}}, Rows{50, 50}, 1, 0.1);
  CHECK(quotas.theta == 30);
  CHECK(quotas.rows == Rows{60, 30, 10});
}

TEST_CASE("no expert is cut below the tile of min_rows, even above the cap") {
  const Quotas quotas = water_fill(Rows{500, 500, 40, 20}, homes(4, 2), Rows{200, 200}, 128, 0.0);
  CHECK(quotas.rows == Rows{128, 128, 40, 20});
  CHECK(quotas.floor_binds);
  // With room for exactly two tiles nothing is above the cap.
  const Quotas exact = water_fill(Rows{500, 500, 40, 20}, homes(4, 2), Rows{256, 256}, 128, 0.0);
  CHECK(exact.rows == Rows{128, 128, 40, 20});
  CHECK_FALSE(exact.floor_binds);
}

TEST_CASE("the floor on retained rows wins over the cap, and only as far as needed") {
  // 900 + 100 rows. Caps of 300 keep 300 + 100 = 400: enough for 0.4, not for 0.5, which needs a cap of 400 on member
  // 0.
  const Quotas enough = water_fill(Rows{900, 100}, homes(2, 2), Rows{300, 300}, 1, 0.4);
  CHECK(enough.rows == Rows{300, 100});
  CHECK_FALSE(enough.floor_binds);
  const Quotas lifted = water_fill(Rows{900, 100}, homes(2, 2), Rows{300, 300}, 1, 0.5);
  CHECK(lifted.rows == Rows{400, 100});
  CHECK(lifted.floor_binds);
  const Quotas all = water_fill(Rows{900, 100}, homes(2, 2), Rows{300, 300}, 1, 1.0);
  CHECK(all.rows == Rows{900, 100});
  CHECK(all.floor_binds);
}

TEST_CASE("no rows at all are no fault") {
  const Quotas quotas = water_fill(Rows{0, 0}, homes(2, 2), Rows{0, 0}, 128, 0.5);
  CHECK(quotas.rows == Rows{0, 0});
  CHECK_FALSE(quotas.floor_binds);
}

TEST_CASE("quotas stay within counts, floors and caps") {
  const base::Random random(3);
  int bound = 0, unbound = 0;
  for (std::uint64_t number = 0; number < 300; ++number) {
    const Rows counts = random_counts(random, number);
    const Hosts hosts = homes(16, 4);
    const double tau = 0.4 + 0.1 * static_cast<double>(number % 10);
    const std::int64_t min_rows = number % 2 == 0 ? 1 : 64;
    const double min_retained = number % 3 == 0 ? 0.8 : 0.3;
    const Rows caps = caps_of(counts, tau, 4);
    const Quotas quotas = water_fill(counts, hosts, caps, min_rows, min_retained);
    for (std::size_t expert = 0; expert < 16; ++expert) {
      REQUIRE(quotas.rows[expert] <= counts[expert]);
      REQUIRE(quotas.rows[expert] >= std::min(counts[expert], min_rows));
    }
    const double total = static_cast<double>(sum_of(counts));
    REQUIRE(static_cast<double>(kept_with_room(quotas)) >= min_retained * total);
    const Rows loads = loads_of(quotas.rows, hosts, 4);
    const Rows whole = loads_of(counts, hosts, 4);
    bool above = false;
    for (std::size_t member = 0; member < 4; ++member) {
      REQUIRE(quotas.room[member] >= 0);
      REQUIRE(loads[member] + quotas.room[member] <= whole[member]);
      above = above || loads[member] + quotas.room[member] > caps[member];
      // Nothing is left unused: a member is at its cap (or above it by a floor) or keeps all its rows.
      REQUIRE(loads[member] + quotas.room[member] >= std::min(whole[member], caps[member]));
    }
    REQUIRE(above == quotas.floor_binds);
    ++(quotas.floor_binds ? bound : unbound);
  }
  CHECK(bound > 20);  // both sides were seen
  CHECK(unbound > 20);
}

TEST_CASE("a larger tau never retains less") {
  const base::Random random(4);
  for (std::uint64_t number = 0; number < 100; ++number) {
    const Rows counts = random_counts(random, number);
    std::int64_t level = -1, rows = -1, kept = -1;
    for (double tau = 0.2; tau < 3; tau += 0.1) {
      const Quotas quotas = water_fill(counts, homes(16, 4), caps_of(counts, tau, 4), 32, 0.4);
      REQUIRE(static_cast<std::int64_t>(quotas.theta) >= level);
      REQUIRE(sum_of(quotas.rows) >= rows);
      REQUIRE(kept_with_room(quotas) >= kept);
      level = static_cast<std::int64_t>(quotas.theta);
      rows = sum_of(quotas.rows);
      kept = kept_with_room(quotas);
    }
  }
}

TEST_CASE("permuting the experts of a member permutes their quotas") {
  const base::Random random(5);
  for (std::uint64_t number = 0; number < 100; ++number) {
    const Rows counts = random_counts(random, number);
    Rows turned = counts;
    for (std::size_t member = 0; member < 4; ++member)
      std::rotate(turned.begin() + static_cast<std::ptrdiff_t>(4 * member),
                  turned.begin() + static_cast<std::ptrdiff_t>(4 * member + 1 + number % 3),
                  turned.begin() + static_cast<std::ptrdiff_t>(4 * member + 4));
    const Rows caps = caps_of(counts, 0.9, 4);
    const Quotas one = water_fill(counts, homes(16, 4), caps, 32, 0.4);
    const Quotas other = water_fill(turned, homes(16, 4), caps, 32, 0.4);
    REQUIRE(one.theta == other.theta);
    REQUIRE(one.room == other.room);
    for (std::size_t member = 0; member < 4; ++member) {
      for (std::size_t i = 0; i < 4; ++i)
        REQUIRE(other.rows[4 * member + i] == one.rows[4 * member + (i + 1 + number % 3) % 4]);
    }
  }
}

TEST_CASE("with several hosts an expert, members stay within equal caps and theta is the largest that does") {
  const base::Random random(6);
  for (std::uint64_t number = 0; number < 100; ++number) {
    const Rows counts = random_counts(random, number);
    Hosts hosts = homes(16, 4);
    for (std::uint64_t expert = 0; expert < 16; ++expert) {
      const auto host = static_cast<std::int32_t>(random.uniform(1000 + number, expert) * 4);
      if (host != hosts[expert].front()) hosts[expert].push_back(host);
    }
    const Rows caps = caps_of(counts, 0.7, 4);
    const Quotas quotas = water_fill(counts, hosts, caps, 1, 0.0);
    const Rows loads = loads_of(quotas.rows, hosts, 4);
    for (std::size_t member = 0; member < 4; ++member) REQUIRE(loads[member] <= caps[member]);
    Rows next(16);
    for (std::size_t expert = 0; expert < 16; ++expert)
      next[expert] = std::min(counts[expert], (static_cast<std::int64_t>(quotas.theta) + 1) *
                                                  static_cast<std::int64_t>(hosts[expert].size()));
    const Rows above = loads_of(next, hosts, 4);
    REQUIRE(*std::max_element(above.begin(), above.end()) > caps[0]);
  }
}
