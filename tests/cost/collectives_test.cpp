#include "cost/collectives.h"

#include <doctest/doctest.h>

#include <cmath>

#include "support.h"

using namespace moeplan;
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
  const auto profile = cost::test::shipped("h100-sxm");
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
