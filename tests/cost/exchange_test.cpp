#include "cost/exchange.h"

#include <doctest/doctest.h>

#include <cmath>

#include "base/error.h"
#include "base/file.h"
#include "cost/bytes_matrix.h"
#include "cost/collective_links.h"
#include "cost/collectives.h"
#include "cost/exchange_classes.h"
#include "cost/plain_max_min.h"
#include "cost/support.h"

namespace moeplan::cost {
namespace {

using doctest::Approx;
using Matrix = std::vector<std::int64_t>;

// The fabric of the reference times (tests/data/network).
Fabric reference_fabric(std::int64_t ranks, double oversubscription) {
  return plain_fabric({8, 360e9, 1e-6, 45e9, 5e-6, oversubscription}, ranks);
}

Matrix uniform(std::size_t ranks, std::int64_t bytes) {
  Matrix matrix(ranks * ranks, bytes);
  for (std::size_t i = 0; i < ranks; ++i) matrix[i * ranks + i] = 0;
  return matrix;
}

Matrix skewed() {
  const std::string path = std::string(MOEPLAN_SOURCE_DIR) + "/tests/data/network/m64_zipf1.csv";
  base::Faults faults;
  BytesMatrix matrix = read_bytes_matrix(base::read_text(path), path, faults);
  faults.throw_if_any();
  return matrix.bytes;
}

std::uint64_t drawn(std::uint64_t seed, std::uint64_t at) {
  std::uint64_t x = seed * 0x9e3779b97f4a7c15ULL + at;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

// Every transfer by itself.
double plain_time(const Matrix& bytes, const Fabric& fabric) {
  const std::size_t p = fabric.ranks.size(), nics = fabric.nic_rate.size(), pods = fabric.pod_rate.size();
  std::vector<double> capacity(2 * p, fabric.scale_up_rate);
  for (int way = 0; way < 2; ++way) capacity.insert(capacity.end(), fabric.nic_rate.begin(), fabric.nic_rate.end());
  for (int way = 0; way < 2; ++way) capacity.insert(capacity.end(), fabric.pod_rate.begin(), fabric.pod_rate.end());
  std::vector<test::PlainFlow> flows;
  std::vector<double> latency;
  for (std::size_t i = 0; i < p; ++i) {
    for (std::size_t j = 0; j < p; ++j) {
      if (i == j || bytes[i * p + j] == 0) continue;
      const Fabric::Rank &a = fabric.ranks[i], &b = fabric.ranks[j];
      test::PlainFlow flow{static_cast<double>(bytes[i * p + j]), {}};
      if (a.domain == b.domain) {
        flow.links = {i, p + j};
        flow.bytes += fabric.scale_up_half;
      } else {
        flow.links = {2 * p + static_cast<std::size_t>(a.nic), 2 * p + nics + static_cast<std::size_t>(b.nic)};
        flow.bytes += fabric.nic_half;
        if (pods > 0 && a.pod != b.pod) {
          flow.links.push_back(2 * (p + nics) + static_cast<std::size_t>(a.pod));
          flow.links.push_back(2 * (p + nics) + pods + static_cast<std::size_t>(b.pod));
        }
      }
      latency.push_back(a.domain == b.domain ? fabric.scale_up_latency : fabric.nic_latency);
      flows.push_back(std::move(flow));
    }
  }
  const std::vector<double> end = test::plain_max_min(flows, capacity);
  double longest = 0;
  for (std::size_t f = 0; f < flows.size(); ++f) longest = std::max(longest, end[f] + latency[f]);
  return longest;
}

}  // namespace

TEST_CASE("fair sharing gives SimGrid's reference times within a tenth of a percent") {
  CHECK(exchange_time(skewed(), reference_fabric(64, 1)).l1_s == Approx(17.713392e-3).epsilon(1e-3));
  CHECK(exchange_time(skewed(), reference_fabric(64, 4)).l1_s == Approx(19.231072e-3).epsilon(1e-3));
  CHECK(exchange_time(uniform(64, 1000000), reference_fabric(64, 1)).l1_s == Approx(1.249444e-3).epsilon(1e-3));
  CHECK(exchange_time(uniform(256, 1000000), reference_fabric(256, 1)).l1_s == Approx(5.516111e-3).epsilon(1e-3));
}

TEST_CASE("the fullest link by hand: latency and its bytes over its rate, with its name and the slack to the next") {
  // Rank 0 sends 45 MB to each of 8 and 9: 90 MB over 45 GB/s and 5 us are 2005 us. Ranks 8 and 9 receive 1005 us.
  Matrix bytes(16 * 16, 0);
  bytes[8] = bytes[9] = 45000000;
  bytes[1] = 36000000;  // inside: 36 MB over 360 GB/s and 1 us are 101 us
  const ExchangeTime time = exchange_time(bytes, reference_fabric(16, 1));
  CHECK(time.l0_s == Approx(2005e-6));
  CHECK(time.l1_s == Approx(2005e-6));
  CHECK(time.binding == "nic send of rank 0");
  CHECK(time.slack_s == Approx(1000e-6));
  CHECK(time.next == "nic receive of rank 8");
}

TEST_CASE("without oversubscription L0 and L1 agree where one port is full throughout, with it L1 may be above") {
  const ExchangeTime open = exchange_time(skewed(), reference_fabric(64, 1));
  CHECK(open.l0_s == Approx(open.l1_s).epsilon(1e-3));
  CHECK(open.l0_s <= open.l1_s);
  const ExchangeTime blocked = exchange_time(skewed(), reference_fabric(64, 4));
  CHECK(blocked.l0_s == Approx(17.713392e-3).epsilon(1e-6));
  CHECK(blocked.l1_s > 1.08 * blocked.l0_s);
}

TEST_CASE("a uniform exchange is two classes at any size: inside and between nodes") {
  for (const std::size_t ranks : {16u, 64u, 512u}) {
    const ExchangeTime time =
        exchange_time(uniform(ranks, 1000), reference_fabric(static_cast<std::int64_t>(ranks), 4));
    CHECK(time.classes == 2);
    CHECK(time.solves <= 2);
  }
  // A last node that is filled in part is unlike the others.
  CHECK(exchange_time(uniform(20, 1000), reference_fabric(20, 1)).classes > 2);
}

TEST_CASE("nothing sent takes no time and binds nothing") {
  const ExchangeTime time = exchange_time(Matrix(64, 0), reference_fabric(8, 1));
  CHECK(time.l0_s == 0);
  CHECK(time.l1_s == 0);
  CHECK(time.binding.empty());
}

TEST_CASE("like transfers together or each by itself: the same times, over random exchanges and fabrics") {
  for (std::uint64_t seed = 1; seed <= 24; ++seed) {
    const std::int64_t ranks = 4 + static_cast<std::int64_t>(seed % 9);
    const auto p = static_cast<std::size_t>(ranks);
    Fabric fabric = plain_fabric(
        {2 + static_cast<std::int64_t>(seed % 3), 360e9, 1e-6, 45e9, 5e-6, seed % 2 == 0 ? 1.0 : 3.0}, ranks);
    if (seed % 4 == 0) fabric.nic_half = 200e3;
    if (seed % 5 == 0) degrade(fabric, {Degraded::What::nic, 1, 0.5}, 4);
    Matrix bytes(p * p);
    for (std::size_t i = 0; i < p * p; ++i)  // few sizes, so that some transfers are alike; some empty
      bytes[i] = static_cast<std::int64_t>(drawn(seed, i) % (seed % 3 == 0 ? 2 : 5)) * 1000000;
    const ExchangeTime time = exchange_time(bytes, fabric);
    CAPTURE(seed);
    const double reference = plain_time(bytes, fabric);
    CHECK(time.l1_s == Approx(std::max(reference, time.l0_s)).epsilon(1e-3));
    CHECK(time.l0_s <= time.l1_s);
    CHECK(time.l0_s == exchange_bound_s(bytes, fabric));
  }
}

TEST_CASE("renaming the ranks of a node, or whole nodes, changes nothing") {
  const Fabric fabric = reference_fabric(64, 4);
  const Matrix bytes = skewed();
  Matrix moved(64 * 64);
  const auto at = [](std::size_t i) { return ((i / 8 + 3) % 8) * 8 + (i + 5) % 8; };
  for (std::size_t i = 0; i < 64; ++i)
    for (std::size_t j = 0; j < 64; ++j) moved[at(i) * 64 + at(j)] = bytes[i * 64 + j];
  CHECK(exchange_time(moved, fabric).l0_s == Approx(exchange_time(bytes, fabric).l0_s).epsilon(1e-12));
  CHECK(exchange_time(moved, fabric).l1_s == Approx(exchange_time(bytes, fabric).l1_s).epsilon(1e-3));
}

TEST_CASE("links that are degraded: a NIC at half its rate, a missing rail, uplinks with less") {
  const Matrix bytes = uniform(16, 1000000);
  // 8 MB over 45 GB/s and 5 us
  CHECK(exchange_time(bytes, reference_fabric(16, 1)).l0_s == Approx(5e-6 + 8e6 / 45e9));
  Fabric half = reference_fabric(16, 1);
  CHECK_FALSE(degrade(half, {Degraded::What::nic, 3, 0.5}, 8));
  CHECK(exchange_time(bytes, half).l0_s == Approx(5e-6 + 16e6 / 45e9));
  CHECK(exchange_time(bytes, half).binding == "nic send of rank 3");
  Fabric missing = reference_fabric(16, 1);
  CHECK_FALSE(degrade(missing, {Degraded::What::rail, 7, 0}, 8));
  CHECK(exchange_time(bytes, missing).l0_s == Approx(5e-6 + 16e6 / 45e9));  // two ranks a NIC
  CHECK(exchange_time(bytes, missing).binding == "nic send of rank 0 (NIC shared by 2 ranks)");
  Fabric uplinks = reference_fabric(16, 2);
  CHECK_FALSE(degrade(uplinks, {Degraded::What::pod, 1, 0.5}, 8));
  // 64 MB out of each node, over 180 and 90 GB/s
  CHECK(exchange_time(bytes, uplinks).l0_s == Approx(5e-6 + 64e6 / 90e9));
  CHECK(exchange_time(bytes, uplinks).binding == "uplinks of pod 1");
}

TEST_CASE("what cannot be degraded so is told") {
  Fabric fabric = reference_fabric(16, 1);
  CHECK(degrade(fabric, {Degraded::What::nic, 16, 0.5}, 8));
  CHECK(degrade(fabric, {Degraded::What::nic, 3, 0}, 8));
  CHECK(degrade(fabric, {Degraded::What::rail, 8, 0.5}, 8));
  CHECK(degrade(fabric, {Degraded::What::pod, 0, 0.5}, 8));  // uplinks do not bind
  Fabric one = plain_fabric({1, 360e9, 0, 45e9, 0, 1}, 4);
  CHECK(degrade(one, {Degraded::What::rail, 0, 0}, 1));  // no other NIC
}

TEST_CASE("the fabric of a group gives L0 of the all-to-all model") {
  const auto profile = test::shipped("h100-sxm");
  const topology::Cluster cluster(profile, 64);
  const auto ranks = test::first_ranks(64);
  const Fabric fabric = group_fabric(ranks, cluster, profile);
  CHECK(exchange_time(skewed(), fabric, false).l0_s ==
        Approx(all_to_all_time(skewed(), ranks, cluster, profile).total_s).epsilon(1e-12));
}

TEST_CASE("rings cross between domains over a NIC for each member, and move the wire's share of the bytes") {
  const Fabric fabric = reference_fabric(16, 1);
  const Matrix gather = transfers_of(topology::CollectiveKind::all_gather, 1.6e9, fabric);
  double across = 0, sent = 0;
  for (std::size_t i = 0; i < 16; ++i) {
    for (std::size_t j = 0; j < 16; ++j) {
      if (i / 8 != j / 8) across += static_cast<double>(gather[i * 16 + j]);
      sent += static_cast<double>(gather[i * 16 + j]);
    }
  }
  // 15/16 x 1.6 GB = 1.5 GB leave each rank; of 8 rings each crosses twice with an eighth of it.
  CHECK(sent == Approx(16 * 1.5e9));
  CHECK(across == Approx(2 * 1.5e9));
  CHECK(exchange_time(gather, fabric).l0_s == Approx(5e-6 + 1.5e9 / 8 / 45e9));
}

TEST_CASE("a collective takes longer by what a degraded link takes longer") {
  const PlainFabric plain{8, 360e9, 0, 45e9, 0, 1};
  const auto profile = plain_profile(plain);
  const topology::Cluster cluster(profile, 16);
  const auto ranks = test::first_ranks(16);
  const Fabric whole = plain_fabric(plain, 16);
  Fabric half = whole;
  CHECK_FALSE(degrade(half, {Degraded::What::nic, 0, 0.5}, 8));
  using topology::CollectiveKind;
  const LinkedTime before =
      collective_with_links(CollectiveKind::all_gather, 1.6e9, ranks, cluster, profile, whole, whole);
  // 1.5 GB over min(360, 8 x 45) GB/s
  CHECK(before.exchange.l0_s == Approx(1.5e9 / 360e9));
  CHECK(before.exchange.l1_s == Approx(1.5e9 / 360e9).epsilon(1e-3));
  const LinkedTime after =
      collective_with_links(CollectiveKind::all_gather, 1.6e9, ranks, cluster, profile, whole, half);
  CHECK(after.exchange.l0_s == Approx(2 * 1.5e9 / 360e9));
  CHECK(after.exchange.binding == "nic send of rank 0");
}

}  // namespace moeplan::cost
