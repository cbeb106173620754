#include "topology/cluster.h"

#include <doctest/doctest.h>

#include "support.h"

using namespace moeplan;
using topology::Cluster;
using topology::Link;
using topology::test::round_profile;

namespace {

std::string names(const std::vector<Link>& route) {
  std::string text;
  for (const Link& link : route) text += (text.empty() ? "" : " ") + link.name;
  return text;
}

double latency_s(const std::vector<Link>& route) {
  double sum = 0;
  for (const Link& link : route) sum += link.latency_s;
  return sum;
}

}  // namespace

TEST_CASE("16 GPUs in nodes of 8 with 8 NICs: vertices and links") {
  const Cluster cluster(round_profile(8, 8), 16);
  CHECK(cluster.gpus() == 16);
  CHECK(cluster.nodes() == 2);
  CHECK(cluster.gpus_per_node() == 8);
  // 16 GPUs + 2 switches + 16 NICs as senders and 16 as receivers + fabric
  CHECK(cluster.vertex_count() == 51);
  // a GPU: to and from its switch, to and from its NIC; a NIC: to and from the fabric
  CHECK(cluster.edge_count() == 4 * 16 + 2 * 16);
}

TEST_CASE("a last node may be partly filled") {
  const Cluster cluster(round_profile(8, 8), 9);
  CHECK(cluster.nodes() == 2);
  CHECK(cluster.host_of(7) == 0);
  CHECK(cluster.host_of(8) == 1);
  CHECK(names(cluster.route(0, 8)) == "gpu0-nic0 nic0-fabric fabric-nic8 nic8-gpu8");
}

TEST_CASE("rates are after efficiency") {
  const Cluster cluster(round_profile(8, 8), 16);
  CHECK(cluster.scale_up_rate() == doctest::Approx(100e9));  // 200 GB/s x 0.5
  CHECK(cluster.nic_rate() == doctest::Approx(10e9));        // 12.5 GB/s x 0.8
  CHECK(cluster.scale_up_latency() == 2e-6);
  CHECK(cluster.nic_latency() == 8e-6);
}

TEST_CASE("inside a node the route is GPU, switch, GPU") {
  const Cluster cluster(round_profile(8, 8), 16);
  const std::vector<Link> route = cluster.route(9, 14);
  CHECK(names(route) == "gpu9-switch1 switch1-gpu14");
  CHECK(latency_s(route) == doctest::Approx(2e-6));
  for (const Link& link : route) CHECK(link.bytes_per_s == doctest::Approx(100e9));
}

TEST_CASE("across nodes the route is GPU, NIC, fabric, NIC, GPU") {
  const Cluster cluster(round_profile(8, 8), 16);
  const std::vector<Link> route = cluster.route(3, 13);
  CHECK(names(route) == "gpu3-nic3 nic3-fabric fabric-nic13 nic13-gpu13");
  CHECK(latency_s(route) == doctest::Approx(8e-6));
  for (const Link& link : route) CHECK(link.bytes_per_s == doctest::Approx(10e9));
}

TEST_CASE("a rank reaches itself without a link") { CHECK(Cluster(round_profile(8, 8), 16).route(5, 5).empty()); }

TEST_CASE("GPUs that share a NIC use the switch between them: with equal latencies the shorter path wins") {
  topology::HardwareProfile profile = round_profile(8, 4);
  for (const double latency : {1.0, 0.0}) {
    profile.network.nic_latency.value = 8e-6 * latency;
    profile.network.scale_up_latency.value = 2e-6 * latency;
    const Cluster cluster(profile, 16);
    CHECK(names(cluster.route(0, 1)) == "gpu0-switch0 switch0-gpu1");
    // 4 NICs a node: GPU 11 is the fourth of node 1 and uses its second NIC
    CHECK(names(cluster.route(0, 11)) == "gpu0-nic0 nic0-fabric fabric-nic5 nic5-gpu11");
  }
}

TEST_CASE("GPUs spread evenly over the NICs of a node") {
  const auto nics = [](double gpus, double nic_count) {
    const Cluster cluster(round_profile(gpus, nic_count), static_cast<std::int64_t>(2 * gpus));
    std::vector<std::int64_t> result;
    for (std::int64_t gpu = 0; gpu < cluster.gpus_per_node(); ++gpu) {
      result.push_back(cluster.nic_of(gpu));
      CHECK(cluster.nic_of(gpu + cluster.gpus_per_node()) == result.back());
    }
    return result;
  };
  CHECK(nics(4, 4) == std::vector<std::int64_t>{0, 1, 2, 3});
  CHECK(nics(4, 2) == std::vector<std::int64_t>{0, 0, 1, 1});
  CHECK(nics(4, 1) == std::vector<std::int64_t>{0, 0, 0, 0});
  CHECK(nics(4, 8) == std::vector<std::int64_t>{0, 2, 4, 6});
  CHECK(nics(4, 3) == std::vector<std::int64_t>{0, 0, 1, 2});
}

TEST_CASE("where NICs outnumber GPUs, the NICs of a GPU are one port with their joint rate") {
  const Cluster cluster(round_profile(8, 32), 16);
  CHECK(cluster.gpus_per_nic() == 0.25);
  CHECK(cluster.nic_rate() == doctest::Approx(10e9));
  const std::vector<Link> route = cluster.route(1, 9);
  CHECK(names(route) == "gpu1-nic4 nic4-fabric fabric-nic36 nic36-gpu9");
  CHECK(route[1].bytes_per_s == doctest::Approx(40e9));
}

TEST_CASE("one GPU a node") {
  const Cluster cluster(round_profile(1, 1), 3);
  CHECK(cluster.nodes() == 3);
  CHECK(names(cluster.route(2, 0)) == "gpu2-nic2 nic2-fabric fabric-nic0 nic0-gpu0");
}

TEST_CASE("routes are symmetric in length and latency") {
  const Cluster cluster(round_profile(4, 2), 16);
  for (std::int64_t a = 0; a < 16; ++a) {
    for (std::int64_t b = 0; b < 16; ++b) {
      const auto there = cluster.route(a, b), back = cluster.route(b, a);
      CHECK(there.size() == back.size());
      CHECK(there.size() == (a == b ? 0u : cluster.host_of(a) == cluster.host_of(b) ? 2u : 4u));
      CHECK(latency_s(there) == doctest::Approx(latency_s(back)));
    }
  }
}

TEST_CASE("a cluster of 16,384 GPUs is built and routed") {
  const Cluster cluster(round_profile(8, 8), 16384);
  CHECK(cluster.nodes() == 2048);
  CHECK(cluster.vertex_count() == 16384 + 2048 + 2 * 16384 + 1);
  CHECK(names(cluster.route(16383, 0)) == "gpu16383-nic16383 nic16383-fabric fabric-nic0 nic0-gpu0");
}

namespace {

topology::Value value(double number) { return {number, topology::Evidence::assumed, "test"}; }

}  // namespace

TEST_CASE("a scale-up domain spans hosts: one switch, NICs stay with the hosts") {
  topology::HardwareProfile profile = round_profile(4, 4);
  profile.network.scale_up_domain = value(16);
  profile.network.ranks_per_domain = value(8);  // two hosts of 4
  const Cluster cluster(profile, 16);
  CHECK(cluster.nodes() == 4);
  CHECK(cluster.domain_gpus() == 8);
  CHECK(cluster.host_of(5) == 1);
  CHECK(cluster.domain_of(5) == 0);
  CHECK(cluster.domain_of(8) == 1);
  CHECK(names(cluster.route(1, 6)) == "gpu1-switch0 switch0-gpu6");  // two hosts, one domain
  CHECK(names(cluster.route(6, 9)) == "gpu6-nic6 nic6-fabric fabric-nic9 nic9-gpu9");
  // 16 GPUs + 2 switches + 16 senders + fabric + 16 receivers
  CHECK(cluster.vertex_count() == 51);
}

TEST_CASE("leaves and spine: hosts of one leaf do not reach the spine: uplinks carry the share") {
  topology::HardwareProfile profile = round_profile(8, 8);
  profile.network.gpus_per_leaf = value(16);
  profile.network.oversubscription = value(4);
  const Cluster cluster(profile, 48);
  CHECK(cluster.leaf_of(15) == 0);
  CHECK(cluster.leaf_of(16) == 1);
  CHECK(cluster.pod_of(47) == 2);
  CHECK(cluster.oversubscription() == 4);
  CHECK(names(cluster.route(3, 13)) == "gpu3-nic3 nic3-leaf0 leaf0-nic13 nic13-gpu13");
  const std::vector<Link> far = cluster.route(3, 40);
  CHECK(names(far) == "gpu3-nic3 nic3-leaf0 leaf0-spine spine-leaf2 leaf2-nic40 nic40-gpu40");
  CHECK(latency_s(far) == doctest::Approx(8e-6));
  CHECK(far[2].bytes_per_s == doctest::Approx(16 * 10e9 / 4));
  CHECK(cluster.vertex_count() == 48 + 6 + 48 + 3 + 1 + 48);
}

TEST_CASE("rails: NIC i of every host of a pod is on leaf i") {
  topology::HardwareProfile profile = round_profile(8, 4);  // two GPUs a NIC
  profile.network.gpus_per_leaf = value(4);                 // one NIC of each of two hosts
  profile.network.rails = value(1);
  const Cluster cluster(profile, 40);  // five hosts: pods of 2, 2, 1
  CHECK(cluster.leaf_of(0) == 0);
  CHECK(cluster.leaf_of(1) == 0);
  CHECK(cluster.leaf_of(7) == 3);
  CHECK(cluster.leaf_of(8) == 0);   // second host, NIC 0
  CHECK(cluster.leaf_of(16) == 4);  // second pod
  CHECK(cluster.pod_of(15) == 0);
  CHECK(cluster.pod_of(16) == 1);
  CHECK(cluster.pod_of(39) == 2);
  CHECK(names(cluster.route(0, 8)) == "gpu0-nic0 nic0-leaf0 leaf0-nic4 nic4-gpu8");
  CHECK(names(cluster.route(0, 10)) == "gpu0-nic0 nic0-leaf0 leaf0-spine spine-leaf1 leaf1-nic5 nic5-gpu10");
}

TEST_CASE("a fabric with faults keeps a share of the NIC rate: staging doubles the scale-up latency") {
  topology::HardwareProfile profile = round_profile(8, 8);
  profile.network.health = value(0.5);
  profile.network.peer_to_peer = value(0);
  const Cluster cluster(profile, 16);
  CHECK(cluster.nic_rate() == doctest::Approx(5e9));
  CHECK(cluster.scale_up_rate() == doctest::Approx(100e9));
  CHECK(cluster.scale_up_latency() == 4e-6);
  profile.network.peer_to_peer = value(1);
  CHECK(Cluster(profile, 16).scale_up_latency() == 2e-6);
}
