#include <doctest/doctest.h>

#include <random>

#include "cost/collectives.h"
#include "cost/dispatch.h"
#include "cost/exchange.h"
#include "support.h"

// Times over NICs and uplinks of which a share is left. Two nodes of 8: 10 GB/s and 10 us a NIC.
using namespace moeplan;
using cost::all_to_all_time;
using cost::Collective;
using cost::collective_time_s;
using cost::send_time_s;
using cost::test::assumed;
using cost::test::first_ranks;
using cost::test::round_profile;
using doctest::Approx;
using topology::Cluster;
using topology::DegradedLink;
using Matrix = std::vector<std::int64_t>;
using What = DegradedLink::What;

namespace {

topology::HardwareProfile degraded(std::vector<DegradedLink> links,
                                   topology::HardwareProfile profile = round_profile()) {
  profile.degraded = std::move(links);
  return profile;
}

topology::HardwareProfile oversubscribed() {
  topology::HardwareProfile profile = round_profile();
  profile.network.oversubscription = assumed(4);
  profile.network.gpus_per_leaf = assumed(8);
  return profile;
}

}  // namespace

TEST_CASE("an exchange over a degraded NIC: its rank takes longer, others do not") {
  // 16 ranks, 1 MB a pair: a NIC sends 8 x (1 MB + 50 kB) over 10 GB/s, 840 us, and 10 us; half the rate: 1690 us.
  const Matrix bytes(256, 1000000);
  const auto profile = degraded({{What::nic, 3, 0.5}});
  const Cluster cluster(profile, 16);
  const auto time = all_to_all_time(bytes, first_ranks(16), cluster, profile);
  CHECK(time.binding == "nic send of rank 3");
  for (std::size_t i = 0; i < 16; ++i) CHECK(time.finish_s[i] == Approx(i == 3 ? 1690e-6 : 850e-6));
}

TEST_CASE("ranks of a missing rail share the next NIC") {
  const Matrix bytes(256, 1000000);
  const auto profile = degraded({{What::rail, 3, 0}});
  const Cluster cluster(profile, 16);
  const auto time = all_to_all_time(bytes, first_ranks(16), cluster, profile);
  CHECK(time.binding == "nic send of rank 3 (NIC shared by 2 ranks)");
  for (std::size_t i = 0; i < 16; ++i) CHECK(time.finish_s[i] == Approx(i % 8 == 3 || i % 8 == 4 ? 1690e-6 : 850e-6));
  // One rank a node: groups of the other ranks exchange at the same time, so half of NIC 4 is left. 1 MB + 50 kB over
  // 5 GB/s, and 10 us.
  const std::vector<std::int64_t> pair{3, 11}, other{5, 13};
  CHECK(all_to_all_time(Matrix(4, 1000000), pair, cluster, profile).total_s == Approx(220e-6));
  CHECK(all_to_all_time(Matrix(4, 1000000), other, cluster, profile).total_s == Approx(115e-6));
}

TEST_CASE("a ring is as slow as its slowest NIC, inside a node nothing changes") {
  // 160 MB: 15/16 x 160 MB over 80 GB/s = 1875 us and 38 us of steps (collectives_test).
  for (const auto& links : {std::vector<DegradedLink>{{What::nic, 3, 0.5}}, {{What::rail, 3, 0}}}) {
    const auto profile = degraded(links);
    const Cluster cluster(profile, 16);
    CHECK(collective_time_s(Collective::all_gather, 160e6, first_ranks(16), cluster, profile) == Approx(3788e-6));
    CHECK(collective_time_s(Collective::all_gather, 160e6, first_ranks(8), cluster, profile) == Approx(889e-6));
    // 20 MB between ranks 5 and 13: 10 MB over 10 GB/s and a step of 10 us; of 3 and 11, half the rate.
    const std::vector<std::int64_t> far{5, 13}, slow{3, 11};
    CHECK(collective_time_s(Collective::all_gather, 20e6, far, cluster, profile) == Approx(1010e-6));
    CHECK(collective_time_s(Collective::all_gather, 20e6, slow, cluster, profile) == Approx(2010e-6));
  }
}

TEST_CASE("a send is as slow as the slower of its NICs") {
  const auto profile = degraded({{What::nic, 3, 0.5}, {What::nic, 11, 0.25}});
  const Cluster cluster(profile, 16);
  CHECK(send_time_s(1e6, 4, 12, cluster, profile) == Approx(115e-6));  // 1.05 MB over 10 GB/s and 10 us
  CHECK(send_time_s(1e6, 3, 12, cluster, profile) == Approx(220e-6));
  CHECK(send_time_s(1e6, 3, 11, cluster, profile) == Approx(430e-6));
  CHECK(send_time_s(1e6, 11, 3, cluster, profile) == Approx(430e-6));
  CHECK(send_time_s(1e6, 3, 4, cluster, profile) == Approx(14e-6));  // inside the node
}

TEST_CASE("uplinks of a pod at half: what crosses them takes twice") {
  // Pods of 8, 4:1: a pair of pods sends 64 MB over 8 x 10 GB/s / 4 = 20 GB/s: 3200 us, half 6400, and 10 us.
  const auto profile = degraded({{What::pod, 1, 0.5}}, oversubscribed());
  const Cluster cluster(profile, 24);
  CHECK(all_to_all_time(Matrix(256, 1000000), first_ranks(16), cluster, profile).total_s == Approx(6410e-6));
  CHECK(all_to_all_time(Matrix(256, 1000000), first_ranks(16), cluster, profile).binding == "uplinks of pod 1");
  const std::vector<std::int64_t> whole_pods{0, 16}, one_slow{0, 8};
  // A ring of two: half of 20 MB over 2.5 GB/s, or 1.25; a step of 10 us.
  CHECK(collective_time_s(Collective::all_gather, 20e6, whole_pods, cluster, profile) == Approx(4010e-6));
  CHECK(collective_time_s(Collective::all_gather, 20e6, one_slow, cluster, profile) == Approx(8010e-6));
  CHECK(send_time_s(1e6, 0, 16, cluster, profile) == Approx(430e-6));
  CHECK(send_time_s(1e6, 0, 8, cluster, profile) == Approx(850e-6));
}

TEST_CASE("dispatch kernels: the NIC of a degraded rail binds what passes over it") {
  auto profile = round_profile();
  profile.dispatch.launch = profile.dispatch.combine_launch = assumed(10e-6);
  profile.dispatch.rate_per_sm = profile.dispatch.combine_rate_per_sm = assumed(10e9);
  profile.dispatch.cap = profile.dispatch.combine_cap = assumed(1e15);
  profile.dispatch.sms = assumed(100);
  const cost::DispatchKernel kernel{.row_bytes = 1000, .experts = 16, .top_k = 1};
  // One expert a token: no row twice. 1000 rows a pair of 16 ranks: 8 MB over each NIC, 800 us + 10 us + 10 us launch.
  const Matrix rows(256, 1000);
  std::vector<double> finish(16);
  const auto slow = degraded({{What::nic, 3, 0.5}}, profile);
  cost::dispatch_finish(kernel, rows, first_ranks(16), Cluster(slow, 16), slow, finish);
  for (std::size_t i = 0; i < 16; ++i) CHECK(finish[i] == Approx(i == 3 ? 1620e-6 : 820e-6));
}

TEST_CASE("dispatch kernels under fair sharing: uplinks that block, by hand") {
  auto profile = oversubscribed();
  profile.dispatch.launch = profile.dispatch.combine_launch = assumed(10e-6);
  profile.dispatch.rate_per_sm = profile.dispatch.combine_rate_per_sm = assumed(10e9);
  profile.dispatch.cap = profile.dispatch.combine_cap = assumed(1e15);
  profile.dispatch.sms = assumed(100);
  cost::DispatchKernel kernel{.row_bytes = 1000, .experts = 16, .top_k = 1};
  // 8 MB over each NIC: 820 us by the ports. A pod of 8 sends 64 MB over 20 GB/s: 3200 us, 10 us and 10 us launch.
  const Matrix rows(256, 1000);
  const Cluster cluster(profile, 16);
  CHECK(cost::dispatch_time_s(kernel, rows, first_ranks(16), cluster, profile) == Approx(820e-6));
  CHECK(cost::dispatch_fair_time_s(kernel, rows, first_ranks(16), cluster, profile) == Approx(3220e-6).epsilon(1e-3));
  kernel.combine = true;
  CHECK(cost::dispatch_fair_time_s(kernel, rows, first_ranks(16), cluster, profile) == Approx(3220e-6).epsilon(1e-3));
  // Inside one node, and over NICs that do not block, the ports decide.
  CHECK(cost::dispatch_fair_time_s(kernel, Matrix(64, 1000), first_ranks(8), cluster, profile) ==
        cost::dispatch_time_s(kernel, Matrix(64, 1000), first_ranks(8), cluster, profile));
  profile.network.oversubscription.reset();
  CHECK(cost::dispatch_fair_time_s(kernel, rows, first_ranks(16), Cluster(profile, 16), profile) ==
        Approx(820e-6).epsilon(1e-9));
}

TEST_CASE("one fabric: L0 of an exchange on a degraded cluster, by ports and by links, and by degrading the fabric") {
  std::mt19937 random(7);
  const std::vector<std::vector<DegradedLink>> cases = {{},
                                                        {{What::nic, 3, 0.5}},
                                                        {{What::rail, 7, 0}},
                                                        {{What::rail, 2, 0.5}, {What::nic, 12, 0.25}},
                                                        {{What::rail, 3, 0}, {What::rail, 4, 0}, {What::rail, 6, 0.5}},
                                                        {{What::pod, 1, 0.5}}};
  for (const auto& links : cases) {
    const auto whole = oversubscribed();
    const auto profile = degraded(links, whole);
    const Cluster cluster(profile, 16), good(whole, 16);
    const auto ranks = first_ranks(16);
    cost::Fabric by_hand = cost::group_fabric(ranks, good, whole);
    for (const DegradedLink& link : links) REQUIRE(!cost::degrade(by_hand, link, 8));
    for (int draw = 0; draw < 10; ++draw) {
      Matrix bytes(256);
      for (auto& one : bytes) one = static_cast<std::int64_t>(random() % 2000000);
      const double ports = all_to_all_time(bytes, ranks, cluster, profile).total_s;
      CHECK(cost::exchange_bound_s(bytes, cost::group_fabric(ranks, cluster, profile)) == Approx(ports).epsilon(1e-12));
      CHECK(cost::exchange_bound_s(bytes, by_hand) == Approx(ports).epsilon(1e-12));
    }
  }
}

TEST_CASE("rails keep their numbers when others are missing, and the last of a node stays") {
  const auto whole = round_profile();
  const Cluster good(whole, 16);
  cost::Fabric fabric = cost::group_fabric(first_ranks(16), good, whole);
  for (std::int64_t rail = 0; rail < 7; ++rail) CHECK(!cost::degrade(fabric, {What::rail, rail, 0}, 8));
  for (std::int64_t rank = 0; rank < 16; ++rank)
    CHECK(fabric.ranks[static_cast<std::size_t>(rank)].nic == rank / 8 * 8 + 7);
  CHECK(cost::degrade(fabric, {What::rail, 7, 0}, 8).has_value());
  CHECK(!cost::degrade(fabric, {What::rail, 7, 0.5}, 8));
  CHECK(cost::degrade(fabric, {What::rail, 8, 0.5}, 8).has_value());
}
