#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>

#include "base/random.h"
#include "policy/lrmoe.h"

using namespace moeplan;
using namespace moeplan::policy;

namespace {

using Hosts = std::vector<std::vector<std::int32_t>>;
using Rows = std::vector<std::int64_t>;
using Shares = std::vector<Rows>;

Rows loads_of(const Shares& shares, const Hosts& hosts, std::size_t members) {
  Rows loads(members, 0);
  for (std::size_t expert = 0; expert < hosts.size(); ++expert) {
    for (std::size_t i = 0; i < hosts[expert].size(); ++i)
      loads[static_cast<std::size_t>(hosts[expert][i])] += shares[expert][i];
  }
  return loads;
}

std::int64_t largest(const Rows& rows) { return *std::max_element(rows.begin(), rows.end()); }

// The smallest possible maximum: over every set S of members, the rows of experts that live in S only, divided by |S|
// and rounded up (max-flow min-cut; with whole rows the bound is reached).
std::int64_t least_maximum(const Rows& rows, const Hosts& hosts, std::size_t members) {
  std::int64_t bound = 0;
  for (unsigned set = 1; set < (1u << members); ++set) {
    std::int64_t inside = 0, size = 0;
    for (std::size_t member = 0; member < members; ++member) size += (set >> member) & 1u;
    for (std::size_t expert = 0; expert < rows.size(); ++expert) {
      const bool all = std::all_of(hosts[expert].begin(), hosts[expert].end(),
                                   [&](std::int32_t host) { return (set >> host) & 1u; });
      if (all) inside += rows[expert];
    }
    bound = std::max(bound, (inside + size - 1) / size);
  }
  return bound;
}

struct Case {
  Rows rows;
  Hosts hosts;
};

// `experts` experts over `members` members, home first, each with up to `extra` more hosts.
Case random_case(const base::Random& random, std::uint64_t number, std::size_t members, std::size_t experts,
                 std::size_t extra) {
  std::uint64_t draw = 0;
  const auto below = [&](std::size_t bound) {
    return static_cast<std::size_t>(random.uniform(number, draw++) * static_cast<double>(bound));
  };
  Case result;
  for (std::size_t expert = 0; expert < experts; ++expert) {
    const double u = random.uniform(number, draw++);
    result.rows.push_back(static_cast<std::int64_t>(u * u * u * 1000));
    std::vector<std::int32_t> hosts = {static_cast<std::int32_t>(expert % members)};
    for (std::size_t i = below(extra + 1); i > 0; --i) {
      const auto host = static_cast<std::int32_t>(below(members));
      if (std::find(hosts.begin(), hosts.end(), host) == hosts.end()) hosts.push_back(host);
    }
    result.hosts.push_back(hosts);
  }
  return result;
}

}  // namespace

TEST_CASE("rows of an expert fill its hosts like water, the odd row on the lower member") {
  // Single-host experts put 10, 4, 0 on members 0, 1, 2; 11 rows over members {2, 1, 0}: level (4 + 0 + 11) / 2 = 7,
  // one left over for member 1.
  const Shares shares = capacity_aware_routing(Rows{11, 10, 4}, Hosts{{2, 1, 0}, {0}, {1}}, 3);
  CHECK(shares[0] == Rows{7, 4, 0});
  CHECK(shares[1] == Rows{10});
  CHECK(shares[2] == Rows{4});
  // 17 rows: members 1 and 2 reach 10 with 6 + 10 = 16, one row is left for the lowest of three equal members.
  CHECK(capacity_aware_routing(Rows{17, 10, 4}, Hosts{{2, 1, 0}, {0}, {1}}, 3)[0] == Rows{10, 6, 1});
}

TEST_CASE("experts with one host go home whatever the load") {
  const Shares shares = capacity_aware_routing(Rows{100, 0, 5}, Hosts{{0}, {1}, {0}}, 2);
  CHECK(shares == Shares{{100}, {0}, {5}});
}

TEST_CASE("rows move over several experts where pouring one after the other was short-sighted") {
  // Pouring: expert 2 alone on member 2 (10); expert 0 over {0, 1}: 5, 5; expert 1 over {1, 2}: 8, 2, so member 1
  // holds 13. Moving expert 0's rows to member 0 gives 10, 10, 10.
  const Hosts hosts = {{0, 1}, {1, 2}, {2}};
  const Shares shares = capacity_aware_routing(Rows{10, 10, 10}, hosts, 3);
  CHECK(largest(loads_of(shares, hosts, 3)) == 10);
}

TEST_CASE("spreading conserves rows, uses hosts only, and reaches the smallest possible maximum") {
  const base::Random random(11);
  for (std::uint64_t number = 0; number < 400; ++number) {
    const std::size_t members = 2 + number % 5;
    const Case c = random_case(random, number, members, members * (1 + number % 4), number % 3);
    const Shares shares = capacity_aware_routing(c.rows, c.hosts, static_cast<std::int64_t>(members));
    REQUIRE(shares.size() == c.rows.size());
    std::int64_t total = 0;
    Rows home(members, 0);
    for (std::size_t expert = 0; expert < c.rows.size(); ++expert) {
      REQUIRE(shares[expert].size() == c.hosts[expert].size());
      REQUIRE(std::accumulate(shares[expert].begin(), shares[expert].end(), std::int64_t{0}) == c.rows[expert]);
      REQUIRE(*std::min_element(shares[expert].begin(), shares[expert].end()) >= 0);
      total += c.rows[expert];
      home[static_cast<std::size_t>(c.hosts[expert].front())] += c.rows[expert];
    }
    const Rows loads = loads_of(shares, c.hosts, members);
    REQUIRE(std::accumulate(loads.begin(), loads.end(), std::int64_t{0}) == total);
    REQUIRE(largest(loads) <= largest(home));
    REQUIRE(largest(loads) == least_maximum(c.rows, c.hosts, members));
  }
}
