#include "topology/degraded.h"

#include <doctest/doctest.h>

#include "support.h"
#include "support/holds.h"
#include "topology/cluster.h"

using namespace moeplan;
using topology::Cluster;
using topology::degraded_faults;
using topology::DegradedLink;
using topology::test::round_profile;
using What = DegradedLink::What;

namespace {

Cluster with(std::vector<DegradedLink> links, topology::HardwareProfile profile = round_profile(8, 8)) {
  profile.degraded = std::move(links);
  return Cluster(profile, 16);
}

topology::HardwareProfile oversubscribed() {
  topology::HardwareProfile profile = round_profile(8, 8);
  profile.network.oversubscription = topology::Value{4, topology::Evidence::assumed, "test"};
  profile.network.gpus_per_leaf = topology::Value{8, topology::Evidence::assumed, "test"};
  return profile;
}

// What is wrong with the last of the links.
std::string last_fault(const std::vector<DegradedLink>& links, const Cluster& whole) {
  return degraded_faults(links, whole).back().value_or("");
}

using moeplan::test::holds;

}  // namespace

TEST_CASE("a NIC at half rate is that of one rank, a rail that of every node") {
  const Cluster nic = with({{What::nic, 3, 0.5}}), rail = with({{What::rail, 3, 0.5}}), whole = with({});
  CHECK(!whole.degraded());
  CHECK(nic.degraded());
  for (std::int64_t gpu = 0; gpu < 16; ++gpu) {
    CHECK(nic.nic_share(gpu) == (gpu == 3 ? 0.5 : 1.0));
    CHECK(rail.nic_share(gpu) == (gpu % 8 == 3 ? 0.5 : 1.0));
    CHECK(nic.port_of(gpu) == gpu);
    CHECK(whole.nic_share(gpu) == 1);
  }
  CHECK(nic.route(3, 12)[0].bytes_per_s == doctest::Approx(5e9));
  CHECK(nic.route(4, 12)[0].bytes_per_s == doctest::Approx(10e9));
}

TEST_CASE("ranks of a missing rail use the next that is there, and both share it") {
  const Cluster one = with({{What::rail, 7, 0}});  // behind the last comes the first
  CHECK(one.port_of(7) == 0);
  CHECK(one.port_of(15) == 8);
  CHECK(one.nic_share(7) == 0.5);
  CHECK(one.nic_share(0) == 0.5);
  CHECK(one.port_share(0) == 1);
  CHECK(one.nic_share(1) == 1);
  CHECK(one.route(7, 9)[0].name == "gpu7-nic0");
  const Cluster two = with({{What::rail, 3, 0}, {What::rail, 4, 0}});
  CHECK(two.port_of(3) == 5);
  CHECK(two.port_of(4) == 5);
  CHECK(two.nic_share(5) == doctest::Approx(1.0 / 3));
  // A rail that serves two is at half rate, too.
  CHECK(with({{What::rail, 3, 0}, {What::rail, 4, 0.5}}).nic_share(3) == 0.25);
}

TEST_CASE("uplinks of a pod") {
  const Cluster pod = with({{What::pod, 1, 0.5}}, oversubscribed());
  CHECK(pod.pod_share(0) == 1);
  CHECK(pod.pod_share(1) == 0.5);
  // gpu0 - nic0 - leaf0 - spine - leaf1 - nic8 - gpu8: 8 x 10 GB/s / 4, and half of it
  CHECK(pod.route(0, 8)[2].bytes_per_s == doctest::Approx(20e9));
  CHECK(pod.route(0, 8)[3].bytes_per_s == doctest::Approx(10e9));
}

TEST_CASE("links that cannot be degraded so are told, both sides of each boundary") {
  const Cluster whole = with({}), blocking = with({}, oversubscribed());
  CHECK(last_fault({{What::nic, 15, 0.5}}, whole).empty());
  CHECK(last_fault({{What::nic, 16, 0.5}}, whole) == "there is no rank 16 among the 16");
  CHECK(holds(last_fault({{What::nic, 3, 0}}, whole), "cut off"));
  CHECK(last_fault({{What::rail, 7, 0}}, whole).empty());
  CHECK(last_fault({{What::rail, 8, 0}}, whole) == "there is no rail 8: nodes have 8");
  CHECK(last_fault({{What::rail, 3, 0}, {What::nic, 12, 0.5}}, whole).empty());
  CHECK(last_fault({{What::rail, 3, 0}, {What::nic, 11, 0.5}}, whole) ==
        "the NIC of rank 11 is of rail 3, which is missing");
  CHECK(last_fault({{What::rail, 3, 0.5}, {What::rail, 3, 0}}, whole) == "rail 3 is named twice");
  CHECK(last_fault({{What::rail, 3, 0.5}, {What::nic, 3, 0.5}}, whole).empty());
  CHECK(holds(last_fault({{What::pod, 0, 0.5}}, whole), "not oversubscribed"));
  CHECK(last_fault({{What::pod, 1, 0.5}}, blocking).empty());
  CHECK(last_fault({{What::pod, 2, 0.5}}, blocking) == "there is no pod 2 among the 2");
  CHECK(holds(last_fault({{What::pod, 1, 0}}, blocking), "cut off"));
  std::vector<DegradedLink> all;
  for (std::int64_t rail = 0; rail < 8; ++rail) {
    CHECK(last_fault(std::vector<DegradedLink>(1, {What::rail, rail, 0}), whole).empty());
    all.push_back({What::rail, rail, 0});
    CHECK(last_fault(all, whole).empty() == (rail < 7));
  }
  CHECK(last_fault({{What::rail, 0, 0}}, Cluster(round_profile(8, 1), 16)) == "nodes have no other NIC");
}
