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

TEST_CASE("GPUs that share a NIC use the switch between them; with equal latencies the shorter path wins") {
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
