#include <doctest/doctest.h>

#include <algorithm>

#include "base/random.h"
#include "cost/collectives.h"
#include "support.h"

using namespace moeplan;
using cost::all_to_all_time;
using cost::AllToAllTime;
using cost::test::first_ranks;
using cost::test::uniform_bytes;
using doctest::Approx;
using Matrix = std::vector<std::int64_t>;

namespace {

Matrix random_matrix(std::size_t members, std::uint64_t seed) {
  const base::Random random(seed);
  Matrix bytes(members * members);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    const double draw = random.uniform(1, i);
    bytes[i] = draw < 0.2 ? 0 : static_cast<std::int64_t>(draw * draw * 8e6);
  }
  return bytes;
}

// Lower bound of any schedule, without latency and small-message share: bytes of the busiest port over its rate.
double port_bound(const Matrix& bytes, const std::vector<std::int64_t>& ranks, const topology::Cluster& cluster) {
  const std::size_t members = ranks.size();
  double bound = 0;
  for (std::size_t i = 0; i < members; ++i) {
    double send = 0, receive = 0, inside_send = 0, inside_receive = 0;
    for (std::size_t j = 0; j < members; ++j) {
      if (i == j) continue;
      const bool inside = cluster.domain_of(ranks[i]) == cluster.domain_of(ranks[j]);
      (inside ? inside_send : send) += static_cast<double>(bytes[i * members + j]);
      (inside ? inside_receive : receive) += static_cast<double>(bytes[j * members + i]);
    }
    bound = std::max({bound, send / cluster.nic_rate(), receive / cluster.nic_rate(),
                      inside_send / cluster.scale_up_rate(), inside_receive / cluster.scale_up_rate()});
  }
  return bound;
}

}  // namespace

TEST_CASE("nothing to send takes no time") {
  const auto profile = cost::test::round_profile();
  const topology::Cluster cluster(profile, 16);
  const AllToAllTime time = all_to_all_time(uniform_bytes(16, 0), first_ranks(16), cluster, profile);
  CHECK(time.total_s == 0);
  CHECK(time.finish_s == std::vector<double>(16, 0.0));
  CHECK(time.binding.empty());
  CHECK(time.slack_s == 0);
}

TEST_CASE("one node by hand") {
  // 4 ranks, 1 MB a pair: 3 MB out and in at 100 GB/s = 30 us; the half size is 2 us x 100 GB/s = 200 kB, 3 messages:
  // 6 us; latency 2 us. The local MB is copied at 1 TB/s / 2 in 2 us.
  const auto profile = cost::test::round_profile();
  const topology::Cluster cluster(profile, 8);
  const AllToAllTime time = all_to_all_time(uniform_bytes(4, 1000000), first_ranks(4), cluster, profile);
  CHECK(time.total_s == Approx(38e-6));
  for (const double finish : time.finish_s) CHECK(finish == Approx(38e-6));
  CHECK(time.binding == "scale-up send of rank 0");
  CHECK(time.slack_s == 0);  // all ports are alike
}

TEST_CASE("two nodes by hand: the NIC binds") {
  // 16 ranks, 100 kB a pair. NIC: 8 messages, 0.8 MB + 8 x 50 kB at 10 GB/s = 120 us, latency 10 us.
  // Scale-up: 7 messages, 0.7 MB + 7 x 200 kB at 100 GB/s = 21 us, latency 2 us.
  const auto profile = cost::test::round_profile();
  const topology::Cluster cluster(profile, 16);
  const AllToAllTime time = all_to_all_time(uniform_bytes(16, 100000), first_ranks(16), cluster, profile);
  CHECK(time.total_s == Approx(130e-6));
  CHECK(time.binding == "nic send of rank 0");
}

TEST_CASE("GPUs that share a NIC add up: a GPU with several NICs uses them all") {
  const auto shared_profile = cost::test::round_profile(8, 4);  // two GPUs a NIC: 240 us + 10 us
  const topology::Cluster shared(shared_profile, 16);
  const AllToAllTime half = all_to_all_time(uniform_bytes(16, 100000), first_ranks(16), shared, shared_profile);
  CHECK(half.total_s == Approx(250e-6));
  CHECK(half.binding == "nic send of rank 0 (NIC shared by 2 ranks)");
  // every second GPU takes part: one a NIC again; 4 messages: 0.4 MB + 200 kB at 10 GB/s = 60 us, latency 10 us
  const AllToAllTime alone = all_to_all_time(uniform_bytes(8, 100000), first_ranks(8, 2), shared, shared_profile);
  CHECK(alone.total_s == Approx(70e-6));
  CHECK(alone.binding == "nic send of rank 0");
  const auto many_profile = cost::test::round_profile(8, 32);  // 40 GB/s a GPU: 30 us + 10 us
  const topology::Cluster many(many_profile, 16);
  CHECK(all_to_all_time(uniform_bytes(16, 100000), first_ranks(16), many, many_profile).total_s == Approx(40e-6));
}

TEST_CASE("a hot receiver binds, finishes last, and says by how much") {
  // Ranks 0 to 3 on four nodes of one GPU; everyone sends 1 MB to rank 2 and 100 kB to the others, itself included.
  // Rank 2 receives 3 MB + 3 x 50 kB at 10 GB/s = 315 us, latency 10 us. Rank 0 sends 1.2 MB + 150 kB: 135 + 10 us.
  const auto profile = cost::test::round_profile(1, 1);
  const topology::Cluster cluster(profile, 4);
  Matrix bytes = uniform_bytes(4, 100000);
  for (std::size_t i = 0; i < 4; ++i) bytes[i * 4 + 2] = 1000000;
  const AllToAllTime time = all_to_all_time(bytes, first_ranks(4), cluster, profile);
  CHECK(time.total_s == Approx(325e-6));
  CHECK(time.finish_s[2] == Approx(325e-6));
  CHECK(time.finish_s[0] == Approx(145e-6));
  CHECK(time.binding == "nic receive of rank 2");
  CHECK(time.slack_s == Approx(180e-6));
}

TEST_CASE("the text names the rank, not its place in the group") {
  const auto profile = cost::test::round_profile(1, 1);
  const topology::Cluster cluster(profile, 8);
  const std::vector<std::int64_t> ranks{3, 7};
  const AllToAllTime time = all_to_all_time(Matrix{0, 0, 1000000, 0}, ranks, cluster, profile);
  CHECK(time.binding == "nic receive of rank 3");  // ties: the member that stands first
  CHECK(time.total_s == Approx(115e-6));           // 1.05 MB at 10 GB/s, and 10 us
  CHECK(time.slack_s == Approx(0));                // rank 7 sends as long
}

TEST_CASE("a group of one copies") {
  const auto profile = cost::test::round_profile();
  const topology::Cluster cluster(profile, 8);
  const std::vector<std::int64_t> rank{5};
  const AllToAllTime time = all_to_all_time(Matrix{1000000}, rank, cluster, profile);
  CHECK(time.total_s == Approx(2e-6));
  CHECK(time.binding == "local copy of rank 5");
  CHECK(time.slack_s == Approx(2e-6));
}

TEST_CASE("small messages lower the rate: many are slower than one of the same size together") {
  const auto profile = cost::test::round_profile(1, 1);
  const topology::Cluster cluster(profile, 9);
  Matrix one(81, 0), many(81, 0);
  one[1] = 800000;
  for (std::size_t j = 1; j < 9; ++j) many[j] = 100000;
  CHECK(all_to_all_time(one, first_ranks(9), cluster, profile).finish_s[0] == Approx(95e-6));    // 850 kB
  CHECK(all_to_all_time(many, first_ranks(9), cluster, profile).finish_s[0] == Approx(130e-6));  // 1.2 MB
}

TEST_CASE("properties on random matrices: bound, scale, permutation, and the fast form agrees") {
  for (const char* id : {"h100-sxm", "ascend-910b-64gb"}) {
    auto profile = cost::test::shipped(id);
    profile.collectives.clear();  // the port form alone
    const topology::Cluster cluster(profile, 64);
    auto no_latency = profile;
    no_latency.network.nic_latency.value = 0;
    no_latency.network.scale_up_latency.value = 0;
    no_latency.network.message_half_size.value = 0;
    const topology::Cluster ideal(no_latency, 64);
    for (std::uint64_t seed = 1; seed <= 20; ++seed) {
      const std::size_t members = 2 + seed;
      const auto ranks = first_ranks(static_cast<std::int64_t>(members), seed % 2 == 0 ? 2 : 1);
      const Matrix bytes = random_matrix(members, seed);
      const AllToAllTime time = all_to_all_time(bytes, ranks, cluster, profile);
      CHECK(time.total_s >= port_bound(bytes, ranks, cluster));
      CHECK(time.total_s == *std::max_element(time.finish_s.begin(), time.finish_s.end()));
      CHECK(time.slack_s >= 0);

      std::vector<double> finish(members);
      cost::all_to_all_finish(bytes, ranks, cluster, profile, finish);
      CHECK(finish == time.finish_s);

      // without latencies, three times the bytes take three times as long
      Matrix tripled = bytes;
      for (std::int64_t& entry : tripled) entry *= 3;
      const double single = all_to_all_time(bytes, ranks, ideal, no_latency).total_s;
      CHECK(all_to_all_time(tripled, ranks, ideal, no_latency).total_s == Approx(3 * single).epsilon(1e-12));
      CHECK(single >= port_bound(bytes, ranks, ideal) * (1 - 1e-12));
      CHECK(time.total_s >= single);

      // members in reverse order: finish times in reverse order
      Matrix reversed(bytes.size());
      for (std::size_t i = 0; i < members; ++i)
        for (std::size_t j = 0; j < members; ++j)
          reversed[i * members + j] = bytes[(members - 1 - i) * members + (members - 1 - j)];
      const std::vector<std::int64_t> back(ranks.rbegin(), ranks.rend());
      const AllToAllTime mirrored = all_to_all_time(reversed, back, cluster, profile);
      for (std::size_t i = 0; i < members; ++i)
        CHECK(mirrored.finish_s[i] == Approx(time.finish_s[members - 1 - i]).epsilon(1e-12));
    }
  }
}

TEST_CASE("H200: 8-GPU all-to-all reaches 311 GB/s of bus bandwidth at 512 MiB, and the measured floor") {
  // nccl-tests counts the bytes that one rank sends in all: 64 MiB a pair. Floor 7.3 to 9.1 us.
  const auto profile = cost::test::shipped("h200-sxm");
  const topology::Cluster cluster(profile, 8);
  const double sent = 7.0 * 64 * 1024 * 1024;
  const AllToAllTime large = all_to_all_time(uniform_bytes(8, 64 << 20), first_ranks(8), cluster, profile);
  CHECK(sent / large.total_s == Approx(311e9).epsilon(0.02));
  const AllToAllTime small = all_to_all_time(uniform_bytes(8, 64), first_ranks(8), cluster, profile);
  CHECK(small.total_s > 7e-6);
  CHECK(small.total_s < 10e-6);
}

TEST_CASE("H100: all-to-all over 2 to 32 nodes lies within a third of the measured times") {
  // nccl-tests, EFA, bytes that one rank sends in all: 2 GiB on 16 GPUs 25.4 ms, on 64 42.6 ms; 64 MiB on 256 2917 us
  const auto profile = cost::test::shipped("h100-sxm");
  const topology::Cluster cluster(profile, 256);
  const auto time = [&](std::int64_t ranks, std::int64_t total) {
    return all_to_all_time(uniform_bytes(static_cast<std::size_t>(ranks), total / ranks), first_ranks(ranks), cluster,
                           profile)
        .total_s;
  };
  CHECK(time(16, std::int64_t{2} << 30) == Approx(25.4e-3).epsilon(0.33));
  CHECK(time(64, std::int64_t{2} << 30) == Approx(42.6e-3).epsilon(0.33));
  CHECK(time(256, std::int64_t{64} << 20) == Approx(2917e-6).epsilon(0.33));
}

TEST_CASE("an entry of the profile prices an exchange inside a domain by each member's busier direction") {
  auto profile = cost::test::round_profile();
  topology::CollectiveEntry entry;
  entry.kind = topology::CollectiveKind::all_to_all;
  entry.ranks = 4;
  entry.nodes = 1;
  entry.latency_s = 10e-6;
  entry.bandwidth = 100e9;
  entry.exponent = 1;
  profile.collectives = {entry};
  const topology::Cluster cluster(profile, 16);
  // Rank 0 sends 1 MB to each of 3: 3 MB over 100 GB/s and 10 us are 40 us; the others receive 1 MB: 20 us.
  Matrix bytes(16, 0);
  for (std::size_t j = 1; j < 4; ++j) bytes[j] = 1000000;
  const AllToAllTime time = all_to_all_time(bytes, first_ranks(4), cluster, profile);
  CHECK(time.finish_s[0] == Approx(40e-6));
  CHECK(time.finish_s[1] == Approx(20e-6));
  CHECK(time.total_s == Approx(40e-6));
  CHECK(time.binding == "scale-up send of rank 0");
  std::vector<double> finish(4);
  cost::all_to_all_finish(bytes, first_ranks(4), cluster, profile, finish);
  CHECK(finish == time.finish_s);
  // Four ranks on two nodes are another group, and so are three on one.
  const std::vector<std::int64_t> apart{0, 1, 8, 9};
  CHECK(cost::used_entry(entry.kind, apart, cluster, profile).entry == nullptr);
  CHECK(cost::used_entry(entry.kind, first_ranks(3), cluster, profile).entry == nullptr);
}
