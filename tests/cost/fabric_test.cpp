#include <doctest/doctest.h>

#include "cost/collectives.h"
#include "support.h"

using namespace moeplan;
using cost::all_to_all_time;
using cost::Collective;
using cost::collective_time_s;
using cost::send_time_s;
using cost::test::assumed;
using cost::test::first_ranks;
using cost::test::uniform_bytes;
using doctest::Approx;
using Matrix = std::vector<std::int64_t>;

namespace {

topology::HardwareProfile oversubscribed(double ratio, double gpus_per_leaf = 16) {
  topology::HardwareProfile profile = cost::test::round_profile();
  profile.network.oversubscription = assumed(ratio);
  profile.network.gpus_per_leaf = assumed(gpus_per_leaf);
  return profile;
}

}  // namespace

TEST_CASE("a domain of several hosts is one fast island") {
  auto profile = cost::test::round_profile(4, 4);
  profile.network.scale_up_domain = assumed(8);
  const topology::Cluster cluster(profile, 16);
  const auto one_host = cost::test::round_profile(8, 8);
  const topology::Cluster reference(one_host, 16);
  CHECK(collective_time_s(Collective::all_gather, 160e6, first_ranks(8), cluster, profile) == Approx(889e-6));
  CHECK(send_time_s(1e6, 3, 4, cluster, profile) == Approx(14e-6));
  CHECK(send_time_s(1e6, 3, 11, cluster, profile) == Approx(115e-6));
  for (const std::size_t members : {std::size_t{8}, std::size_t{16}}) {
    const auto ranks = first_ranks(static_cast<std::int64_t>(members));
    CHECK(all_to_all_time(uniform_bytes(members, 1 << 20), ranks, cluster, profile).finish_s ==
          all_to_all_time(uniform_bytes(members, 1 << 20), ranks, reference, one_host).finish_s);
  }
}

TEST_CASE("leaves that are not oversubscribed change nothing") {
  const auto plain = cost::test::round_profile();
  const auto leaves = oversubscribed(1);
  const topology::Cluster cluster(plain, 64), with_leaves(leaves, 64);
  const auto ranks = first_ranks(64);
  CHECK(all_to_all_time(uniform_bytes(64, 100000), ranks, cluster, plain).finish_s ==
        all_to_all_time(uniform_bytes(64, 100000), ranks, with_leaves, leaves).finish_s);
  CHECK(collective_time_s(Collective::all_reduce, 1e9, ranks, cluster, plain) ==
        collective_time_s(Collective::all_reduce, 1e9, ranks, with_leaves, leaves));
}

TEST_CASE("all-to-all over two oversubscribed leaves by hand") {
  // 32 ranks, two leaves of 16, 1 MB a pair, 4:1. Across the spine: 16 x 16 MB = 256 MB a leaf over 16 x 10 GB/s / 4 =
  // 40 GB/s: 6400 us, and 10 us of latency. A NIC sends 24 x (1 MB + 50 kB) over 10 GB/s: 2520 us.
  const auto profile = oversubscribed(4);
  const topology::Cluster cluster(profile, 32);
  const auto time = all_to_all_time(uniform_bytes(32, 1000000), first_ranks(32), cluster, profile);
  CHECK(time.total_s == Approx(6410e-6));
  CHECK(time.binding == "uplinks of pod 0");
  CHECK(time.slack_s == Approx(0).epsilon(1e-9));  // downlinks carry as much
  // 16 ranks of one leaf do not reach the spine: 8 x (1 MB + 50 kB) over a NIC
  CHECK(all_to_all_time(uniform_bytes(16, 1000000), first_ranks(16), cluster, profile).total_s == Approx(850e-6));
}

TEST_CASE("a member without traffic beyond the leaf does not wait for the uplinks") {
  const auto profile = oversubscribed(100);
  const topology::Cluster cluster(profile, 32);
  Matrix bytes = uniform_bytes(32, 0);
  bytes[0 * 32 + 16] = 1000000;  // crosses
  bytes[1 * 32 + 2] = 1000000;   // inside a node
  const auto time = all_to_all_time(bytes, first_ranks(32), cluster, profile);
  // 1 MB over 16 x 10 GB/s / 100 = 1.6 GB/s: 625 us, latency 10 us
  CHECK(time.finish_s[0] == Approx(635e-6));
  CHECK(time.finish_s[16] == Approx(635e-6));
  CHECK(time.finish_s[1] == Approx(14e-6));
  CHECK(time.finish_s[3] == 0);
}

TEST_CASE("rings cross the spine once a pod") {
  // 64 ranks on 8 nodes, 2 nodes a leaf: 80 GB/s over NICs. A pod of 16 members at 2:1 has 16 x 10 / 2 = 80 GB/s: no
  // change; at 4:1 40 GB/s: 63/64 x 160 MB takes 3937.5 us in place of 1968.75.
  const auto time = [](double ratio) {
    const auto profile = oversubscribed(ratio);
    const topology::Cluster cluster(profile, 64);
    return collective_time_s(Collective::all_gather, 160e6, first_ranks(64), cluster, profile);
  };
  CHECK(time(2) == time(1));
  CHECK(time(4) == Approx(time(1) + 1968.75e-6));
}

TEST_CASE("rings with one member a pod, and point to point, have the share of one GPU") {
  const auto profile = oversubscribed(4);
  const topology::Cluster cluster(profile, 64);
  // ranks 0, 16, 32, 48: 3/4 x 40 MB over 2.5 GB/s = 12000 us, 3 steps of 10 us
  CHECK(collective_time_s(Collective::all_gather, 40e6, first_ranks(4, 16), cluster, profile) == Approx(12030e-6));
  CHECK(send_time_s(1e6, 3, 11, cluster, profile) == Approx(115e-6));  // same leaf
  CHECK(send_time_s(1e6, 3, 19, cluster, profile) == Approx(430e-6));  // 1.05 MB over 2.5 GB/s and 10 us
}

TEST_CASE("oversubscription and poor health are never faster") {
  for (const double ratio : {1.0, 1.5, 2.0, 8.0}) {
    const auto profile = oversubscribed(ratio), worse = oversubscribed(ratio * 1.5);
    auto sick = profile;
    sick.network.health = assumed(0.5);
    const topology::Cluster cluster(profile, 64), worse_cluster(worse, 64), sick_cluster(sick, 64);
    const auto ranks = first_ranks(64);
    const double time = all_to_all_time(uniform_bytes(64, 300000), ranks, cluster, profile).total_s;
    CHECK(all_to_all_time(uniform_bytes(64, 300000), ranks, worse_cluster, worse).total_s >= time);
    CHECK(all_to_all_time(uniform_bytes(64, 300000), ranks, sick_cluster, sick).total_s > time);
  }
}

TEST_CASE("NVL72: all-to-all falls off a cliff between racks, by about the ratio measured") {
  // oci-gpu-quickstarts, bus bandwidth at 8 GiB: 64 GPUs of one rack 623 GB/s, 128 of two racks 89.7
  const auto profile = cost::test::shipped("gb200-nvl72");
  const topology::Cluster cluster(profile, 128);
  const auto bus = [&](std::int64_t ranks) {
    const std::int64_t pair = (std::int64_t{8} << 30) / ranks;
    const double time =
        all_to_all_time(uniform_bytes(static_cast<std::size_t>(ranks), pair), first_ranks(ranks), cluster, profile)
            .total_s;
    return static_cast<double>(pair * (ranks - 1)) / time;
  };
  CHECK(bus(64) == Approx(623e9).epsilon(0.1));
  CHECK(bus(128) == Approx(89.7e9).epsilon(0.1));
}
