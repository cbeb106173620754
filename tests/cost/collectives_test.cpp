#include "cost/collectives.h"

#include <doctest/doctest.h>

#include <cmath>

#include "support.h"

using namespace moeplan;
using cost::Algorithm;
using cost::algorithm_time_s;
using cost::Collective;
using cost::collective_time_s;
using cost::send_time_s;
using cost::test::first_ranks;
using doctest::Approx;

TEST_CASE("a group of one, or no bytes, takes no time") {
  const auto profile = cost::test::round_profile();
  const topology::Cluster cluster(profile, 16);
  CHECK(collective_time_s(Collective::all_reduce, 1e6, first_ranks(1), cluster, profile) == 0);
  CHECK(collective_time_s(Collective::all_gather, 0, first_ranks(8), cluster, profile) == 0);
}

TEST_CASE("all-gather inside a node by hand") {
  // 8 ranks, 160 MB: 7/8 x 160 MB over 200 GB/s x 0.8 = 875 us; 7 steps of 2 us. Exponent 1 adds them.
  const auto profile = cost::test::round_profile();
  const topology::Cluster cluster(profile, 16);
  CHECK(collective_time_s(Collective::all_gather, 160e6, first_ranks(8), cluster, profile) == Approx(889e-6));
  CHECK(collective_time_s(Collective::reduce_scatter, 160e6, first_ranks(8), cluster, profile) == Approx(889e-6));
  CHECK(collective_time_s(Collective::all_reduce, 160e6, first_ranks(8), cluster, profile) == Approx(2 * 889e-6));
}

TEST_CASE("two nodes by hand: all NICs of the node carry the ring") {
  // 16 ranks, 160 MB: 15/16 x 160 MB over min(160, 8 x 10) GB/s = 1875 us. 15 steps: 1 of 10 us and 14 of 2 us.
  const auto profile = cost::test::round_profile();
  const topology::Cluster cluster(profile, 16);
  CHECK(collective_time_s(Collective::all_gather, 160e6, first_ranks(16), cluster, profile) == Approx(1913e-6));
}

TEST_CASE("one rank a node: each ring has one NIC") {
  // 4 ranks on 4 nodes, 40 MB: 3/4 x 40 MB over 10 GB/s = 3000 us, 3 steps of 10 us.
  const auto profile = cost::test::round_profile();
  const topology::Cluster cluster(profile, 32);
  CHECK(collective_time_s(Collective::all_gather, 40e6, first_ranks(4, 8), cluster, profile) == Approx(3030e-6));
}

TEST_CASE("the node with the fewest members limits an uneven group: GPUs that share a NIC share its rate") {
  // Ranks 0, 1, 2 and 8: one NIC on the second node. 3/4 x 40 MB over 10 GB/s = 3000 us; steps 10 + 2 x 2 us.
  const auto profile = cost::test::round_profile();
  const topology::Cluster cluster(profile, 16);
  const std::vector<std::int64_t> uneven{0, 1, 2, 8};
  CHECK(collective_time_s(Collective::all_gather, 40e6, uneven, cluster, profile) == Approx(3014e-6));
  const auto shared_profile = cost::test::round_profile(8, 4);  // 5 GB/s a GPU
  const topology::Cluster shared(shared_profile, 16);
  CHECK(collective_time_s(Collective::all_gather, 40e6, uneven, shared, shared_profile) == Approx(6014e-6));
  CHECK(collective_time_s(Collective::all_gather, 160e6, first_ranks(16), shared, shared_profile) ==
        Approx(3750e-6 + 38e-6));
}

TEST_CASE("an algorithm that somebody names is priced alone") {
  // 16 ranks on 2 nodes, 160 MB: 2 x 15/16 x 160 MB = 300 MB. Ring: over 80 GB/s 3750 us, 2 x (10 + 14 x 2) us. Tree:
  // twice the volume over the NICs 7500 us, 2 x 7 x 2 us inside, 2 x 10 us across.
  auto profile = cost::test::round_profile();
  const topology::Cluster cluster(profile, 16);
  const auto time = [&](topology::CollectiveKind kind, Algorithm algorithm, std::int64_t ranks) {
    return algorithm_time_s(kind, algorithm, 160e6, first_ranks(ranks), cluster, profile);
  };
  constexpr auto kReduce = topology::CollectiveKind::all_reduce;
  CHECK(time(kReduce, Algorithm::ring, 16).value() == Approx(3826e-6));
  CHECK(time(kReduce, Algorithm::tree, 16).value() == Approx(7548e-6));
  CHECK_FALSE(time(kReduce, Algorithm::tree, 8).has_value());   // no tree of domains inside one
  CHECK_FALSE(time(kReduce, Algorithm::nvls, 16).has_value());  // the profile knows no such switches
  // With them: 300 MB over 200 GB/s = 1500 us inside, half the bytes each way over 80 GB/s = 2000 us across.
  profile.network.switch_reduction_efficiency = topology::Value{1.0, topology::Evidence::assumed, ""};
  profile.network.switch_reduction_from = topology::Value{8, topology::Evidence::assumed, ""};
  CHECK(time(kReduce, Algorithm::nvls, 16).value() == Approx(2048e-6));
  CHECK_FALSE(time(kReduce, Algorithm::nvls, 7).has_value());
  // All-gather has the ring only.
  CHECK(time(topology::CollectiveKind::all_gather, Algorithm::nvls, 16).value() == Approx(1913e-6));
}

TEST_CASE("the order of the members does not matter") {
  const auto profile = cost::test::round_profile();
  const topology::Cluster cluster(profile, 16);
  const std::vector<std::int64_t> mixed{8, 0, 2, 1};
  const std::vector<std::int64_t> sorted{0, 1, 2, 8};
  CHECK(collective_time_s(Collective::all_gather, 40e6, mixed, cluster, profile) ==
        collective_time_s(Collective::all_gather, 40e6, sorted, cluster, profile));
}

TEST_CASE("latency and transfer of one node are joined with the exponent: steps across nodes add") {
  auto profile = cost::test::round_profile();
  profile.network.collective_exponent.value = 0.5;
  const topology::Cluster cluster(profile, 16);
  // 8 ranks, transfer 875 us, steps 14 us: (sqrt 14 + sqrt 875)^2 us
  const double one_node = std::pow(std::sqrt(14.0) + std::sqrt(875.0), 2) * 1e-6;
  CHECK(collective_time_s(Collective::all_gather, 160e6, first_ranks(8), cluster, profile) == Approx(one_node));
  // 16 ranks: transfer 1875 us, joined steps 14 us, further 10 + 14 us
  const double two_nodes = std::pow(std::sqrt(14.0) + std::sqrt(1875.0), 2) * 1e-6 + 24e-6;
  CHECK(collective_time_s(Collective::all_gather, 160e6, first_ranks(16), cluster, profile) == Approx(two_nodes));
}

TEST_CASE("H200: 8-GPU all-gather as measured at 512 MiB and at the floor") {
  // nccl-tests (aiconfigurator, NCCL 2.29): 337 GB/s bus bandwidth at 512 MiB, 10.3 us for the smallest
  const auto profile = cost::test::shipped("h200-sxm");
  const topology::Cluster cluster(profile, 8);
  const double bytes = 512.0 * 1024 * 1024;
  const double bus =
      7.0 / 8 * bytes / collective_time_s(Collective::all_gather, bytes, first_ranks(8), cluster, profile);
  CHECK(bus == Approx(337e9).epsilon(0.05));
  const double floor_s = collective_time_s(Collective::all_gather, 8, first_ranks(8), cluster, profile);
  CHECK(floor_s > 5e-6);
  CHECK(floor_s < 15e-6);
}

TEST_CASE("H100: all-gather of 2 GiB over 2 to 32 nodes lies within a fifth of the measured times") {
  // nccl-tests on nodes of 8 with 50 GB/s a GPU, EFA: 16, 32 and 64 GPUs 6127, 6287 and 7197 us
  const auto profile = cost::test::shipped("h100-sxm");
  const topology::Cluster cluster(profile, 64);
  const double bytes = 2147483648.0;
  CHECK(collective_time_s(Collective::all_gather, bytes, first_ranks(16), cluster, profile) ==
        Approx(6127e-6).epsilon(0.2));
  CHECK(collective_time_s(Collective::all_gather, bytes, first_ranks(32), cluster, profile) ==
        Approx(6287e-6).epsilon(0.2));
  CHECK(collective_time_s(Collective::all_gather, bytes, first_ranks(64), cluster, profile) ==
        Approx(7197e-6).epsilon(0.2));
}

TEST_CASE("more bytes or more ranks are never faster, more bandwidth never slower") {
  auto profile = cost::test::shipped("h100-sxm");
  profile.collectives.clear();                    // measured: two ranks may well be slower than four,
  profile.network.switch_reduction_from.reset();  // and eight, added up in the switch, quicker than four
  auto faster = profile;
  faster.network.nic_bandwidth.value *= 2;
  faster.network.scale_up_bandwidth.value *= 2;
  const topology::Cluster cluster(profile, 512), fast_cluster(faster, 512);
  for (std::int64_t ranks = 2; ranks <= 512; ranks *= 2)
    for (double bytes = 1; bytes < 1e11; bytes *= 8) {
      const auto group = first_ranks(ranks);
      const double time = collective_time_s(Collective::all_reduce, bytes, group, cluster, profile);
      CHECK(collective_time_s(Collective::all_reduce, 2 * bytes, group, cluster, profile) >= time);
      CHECK(collective_time_s(Collective::all_reduce, bytes, group, fast_cluster, faster) <= time);
      if (ranks <= 256)
        CHECK(collective_time_s(Collective::all_reduce, bytes, first_ranks(2 * ranks), cluster, profile) >= time);
    }
}

TEST_CASE("point to point by hand") {
  const auto profile = cost::test::round_profile();
  const topology::Cluster cluster(profile, 16);
  CHECK(send_time_s(1e6, 3, 3, cluster, profile) == 0);
  CHECK(send_time_s(0, 3, 4, cluster, profile) == 0);
  // inside: 1 MB over 100 GB/s = 10 us; latency 2 us, and as much again for the small-message share
  CHECK(send_time_s(1e6, 3, 4, cluster, profile) == Approx(14e-6));
  // across: (1 MB + 50 kB) over 10 GB/s = 105 us, latency 10 us
  CHECK(send_time_s(1e6, 3, 11, cluster, profile) == Approx(115e-6));
  const auto shared_profile = cost::test::round_profile(8, 4);  // neighbours send, too: 5 GB/s a GPU
  const topology::Cluster shared(shared_profile, 16);
  CHECK(send_time_s(1e6, 3, 11, shared, shared_profile) == Approx(220e-6));
}

namespace {

topology::CollectiveEntry entry_of(topology::CollectiveKind kind, std::int64_t ranks, std::int64_t nodes) {
  topology::CollectiveEntry entry;
  entry.kind = kind;
  entry.ranks = ranks;
  entry.nodes = nodes;
  entry.latency_s = 100e-6;
  entry.bandwidth = 50e9;
  entry.exponent = 1;
  return entry;
}

}  // namespace

TEST_CASE("an entry of the profile prices the group it was measured on, and no other") {
  auto profile = cost::test::round_profile();
  profile.collectives = {entry_of(topology::CollectiveKind::all_gather, 8, 1)};
  const topology::Cluster cluster(profile, 16);
  // 7/8 x 160 MB over 50 GB/s = 2800 us, plus 100 us
  CHECK(collective_time_s(Collective::all_gather, 160e6, first_ranks(8), cluster, profile) == Approx(2900e-6));
  // another collective, four ranks, and eight on two nodes: the general form, by hand above or below
  CHECK(collective_time_s(Collective::reduce_scatter, 160e6, first_ranks(8), cluster, profile) == Approx(889e-6));
  // 3/4 x 160 MB over 160 GB/s = 750 us, 3 steps of 2 us
  CHECK(collective_time_s(Collective::all_gather, 160e6, first_ranks(4), cluster, profile) == Approx(756e-6));
  const std::vector<std::int64_t> two_nodes{0, 1, 2, 3, 8, 9, 10, 11};
  CHECK(cost::used_entry(topology::CollectiveKind::all_gather, two_nodes, cluster, profile).entry == nullptr);
}

TEST_CASE("where the link is slower than as measured, transfers of an entry take so much longer, latencies do not") {
  auto profile = cost::test::round_profile();
  profile.collectives = {entry_of(topology::CollectiveKind::all_gather, 8, 1)};
  profile.collectives[0].link_rate = 200e9;
  profile.network.scale_up_bandwidth.value = 100e9;
  const topology::Cluster cluster(profile, 16);
  CHECK(collective_time_s(Collective::all_gather, 160e6, first_ranks(8), cluster, profile) == Approx(5700e-6));
}

TEST_CASE("entries of another fabric do not count") {
  auto profile = cost::test::round_profile();
  auto other = entry_of(topology::CollectiveKind::all_gather, 16, 2);
  other.fabric = "efa";
  profile.collectives = {other};
  const topology::Cluster cluster(profile, 16);
  using topology::CollectiveKind;
  CHECK(cost::used_entry(CollectiveKind::all_gather, first_ranks(16), cluster, profile).entry == nullptr);
  profile.fabric = "efa";
  CHECK(cost::used_entry(CollectiveKind::all_gather, first_ranks(16), cluster, profile).entry != nullptr);
}

TEST_CASE("an all-reduce that the switch adds up, by hand") {
  auto profile = cost::test::round_profile();
  profile.network.switch_reduction_efficiency = topology::Value{1.0, topology::Evidence::assumed, ""};
  profile.network.switch_reduction_from = topology::Value{5, topology::Evidence::assumed, ""};
  const topology::Cluster cluster(profile, 32);
  // 8 ranks, 160 MB: 1.75 x 160 MB over 200 GB/s = 1400 us, 14 steps of 2 us; a ring takes 1778 us.
  CHECK(collective_time_s(Collective::all_reduce, 160e6, first_ranks(8), cluster, profile) == Approx(1428e-6));
  // 5 ranks use it: 1.6 x 160 MB over 200 GB/s = 1280 us, 8 steps. 4 do not: 1.5 x 160 MB over 160 GB/s, 6 steps.
  CHECK(collective_time_s(Collective::all_reduce, 160e6, first_ranks(5), cluster, profile) == Approx(1296e-6));
  CHECK(collective_time_s(Collective::all_reduce, 160e6, first_ranks(4), cluster, profile) == Approx(1512e-6));
  // Two nodes exchange 160 MB over 80 GB/s: 2000 us, 14 steps of 2 us, and 10 us up and down.
  CHECK(collective_time_s(Collective::all_reduce, 160e6, first_ranks(16), cluster, profile) == Approx(2048e-6));
  // Four nodes send up and down: 2 x 31/32 x 160 MB over 80 GB/s = 3875 us, 28 us inside, two levels up and down. The
  // ring has the same transfer, and 2 (3 x 10 + 28 x 2) us of steps: 4047 us.
  CHECK(collective_time_s(Collective::all_reduce, 160e6, first_ranks(32), cluster, profile) == Approx(3943e-6));
}

TEST_CASE("small all-reduces across many nodes go over a tree: steps grow with the logarithm of the nodes") {
  const auto profile = cost::test::round_profile();
  const topology::Cluster cluster(profile, 128);
  // 16 nodes of one rank, 8 B: 4 levels of 10 us up and down, where a ring takes 30 steps.
  CHECK(collective_time_s(Collective::all_reduce, 8, first_ranks(16, 8), cluster, profile) ==
        Approx(80e-6).epsilon(1e-3));
}

TEST_CASE("a launch counts once in every collective of the general form") {
  auto profile = cost::test::round_profile();
  profile.network.collective_launch = topology::Value{5e-6, topology::Evidence::assumed, ""};
  const topology::Cluster cluster(profile, 16);
  CHECK(collective_time_s(Collective::all_gather, 160e6, first_ranks(8), cluster, profile) == Approx(894e-6));
  CHECK(collective_time_s(Collective::all_reduce, 160e6, first_ranks(8), cluster, profile) == Approx(1783e-6));
}
