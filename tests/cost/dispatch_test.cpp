#include "cost/dispatch.h"

#include <doctest/doctest.h>

#include <cmath>

#include "cost/collectives.h"
#include "support.h"

using namespace moeplan;
using cost::dispatch_time_s;
using cost::DispatchKernel;
using cost::distinct_ranks;
using cost::test::assumed;
using cost::test::first_ranks;
using doctest::Approx;
using Matrix = std::vector<std::int64_t>;

namespace {

// 10 us and 10 GB/s a multiprocessor up to 100 GB/s; combine 20 us, 5 and 50 GB/s. NICs of 10 GB/s, 10 us.
topology::HardwareProfile round_kernels() {
  topology::HardwareProfile profile = cost::test::round_profile();
  profile.dispatch.launch = assumed(10e-6);
  profile.dispatch.rate_per_sm = assumed(10e9);
  profile.dispatch.cap = assumed(100e9);
  profile.dispatch.combine_launch = assumed(20e-6);
  profile.dispatch.combine_rate_per_sm = assumed(5e9);
  profile.dispatch.combine_cap = assumed(50e9);
  profile.dispatch.sms = assumed(8);
  return profile;
}

}  // namespace

TEST_CASE("distinct ranks: one expert, all experts, and small cases by hand") {
  CHECK(distinct_ranks(64, 8, 1) == Approx(1));
  CHECK(distinct_ranks(8, 8, 8) == Approx(8));
  CHECK(distinct_ranks(64, 1, 6) == Approx(1));
  CHECK(distinct_ranks(64, 8, 0) == 0);
  // 4 experts on 2 ranks, 2 a token: both on one rank in 2 of 6 pairs, so 1 + 4/6
  CHECK(distinct_ranks(4, 2, 2) == Approx(5.0 / 3));
  // more experts than fit beside a rank: every rank is hit
  CHECK(distinct_ranks(4, 2, 3) == Approx(2));
}

TEST_CASE("distinct ranks of DeepSeek-V2-Lite as counted in routing traces: 64 experts, 6 a token") {
  CHECK(distinct_ranks(64, 8, 6) == Approx(4.54).epsilon(0.002));
  CHECK(distinct_ranks(64, 16, 6) == Approx(5.32).epsilon(0.002));
  CHECK(distinct_ranks(64, 32, 6) == Approx(5.76).epsilon(0.002));
}

TEST_CASE("a dispatch inside one node by hand") {
  // 2 ranks, 4 experts, 2 a token: 5/3 distinct of 2 copies. 600 tokens a rank, evenly: 600 rows a pair. Each rank
  // sends 1200 rows x 5/6 x 1000 B = 1 MB (its own rank included) over 8 x 10 GB/s: 12.5 us, and 10 us.
  const auto profile = round_kernels();
  const topology::Cluster cluster(profile, 16);
  DispatchKernel kernel{.row_bytes = 1000, .experts = 4, .top_k = 2};
  const Matrix rows(4, 600);
  CHECK(dispatch_time_s(kernel, rows, first_ranks(2), cluster, profile) == Approx(22.5e-6));
  kernel.sms = 20;  // the cap binds
  CHECK(dispatch_time_s(kernel, rows, first_ranks(2), cluster, profile) == Approx(20e-6));
  kernel.combine = true;  // 1 MB over 50 GB/s and 20 us
  CHECK(dispatch_time_s(kernel, rows, first_ranks(2), cluster, profile) == Approx(40e-6));
  CHECK(dispatch_time_s(kernel, Matrix(4, 0), first_ranks(2), cluster, profile) == 0);
}

TEST_CASE("a cost of each token on the multiprocessors, and the join with the launch, by hand") {
  auto profile = round_kernels();
  profile.dispatch.token_cost = assumed(100e-9);
  const topology::Cluster cluster(profile, 16);
  DispatchKernel kernel{.row_bytes = 1000, .experts = 4, .top_k = 2};
  // As above, 12.5 us of bytes; 600 tokens of 100 ns over 8 multiprocessors are 7.5 us; 10 us of launch.
  CHECK(dispatch_time_s(kernel, Matrix(4, 600), first_ranks(2), cluster, profile) == Approx(30e-6));
  kernel.sms = 20;  // 10 us at the cap, 3 us of tokens
  CHECK(dispatch_time_s(kernel, Matrix(4, 600), first_ranks(2), cluster, profile) == Approx(23e-6));
  profile.dispatch.exponent = assumed(2);
  CHECK(dispatch_time_s(kernel, Matrix(4, 600), first_ranks(2), cluster, profile) ==
        Approx(std::sqrt(13.0 * 13 + 100) * 1e-6));
  kernel.combine = true;  // has keys of its own
  CHECK(dispatch_time_s(kernel, Matrix(4, 600), first_ranks(2), cluster, profile) == Approx(40e-6));
}

TEST_CASE("a hot rank receives for longer than the others") {
  const auto profile = round_kernels();
  const topology::Cluster cluster(profile, 16);
  const DispatchKernel kernel{.row_bytes = 1000, .experts = 4, .top_k = 1};
  // rank 1 gets all 8000 rows: 8 MB over 80 GB/s; rank 0 sends half of them
  const Matrix rows{0, 4000, 0, 4000};
  std::vector<double> finish(2);
  cost::dispatch_finish(kernel, rows, first_ranks(2), cluster, profile, finish);
  CHECK(finish[0] == Approx(60e-6));
  CHECK(finish[1] == Approx(110e-6));
}

TEST_CASE("across nodes a row crosses once a node and is passed on to the ranks of its experts") {
  // 16 ranks on 2 nodes, 64 experts, 8 a token, 1000 rows a pair of 1000 B. NICs: 8 ranks x 1000 rows x d(2)/8.
  const auto profile = round_kernels();
  const topology::Cluster cluster(profile, 16);
  const DispatchKernel kernel{.row_bytes = 1000, .experts = 64, .top_k = 8};
  const double nic_s = 10e-6 + 8e6 * distinct_ranks(64, 2, 8) / 8 / 10e9;
  const double inside_s = 16e6 * distinct_ranks(64, 16, 8) / 8 / 80e9;
  CHECK(nic_s > inside_s);
  CHECK(dispatch_time_s(kernel, Matrix(256, 1000), first_ranks(16), cluster, profile) == Approx(10e-6 + nic_s));
  // a NIC shared by two GPUs is twice as slow
  auto shared_profile = round_kernels();
  shared_profile.network.nics_per_node.value = 4;
  const topology::Cluster shared(shared_profile, 16);
  CHECK(dispatch_time_s(kernel, Matrix(256, 1000), first_ranks(16), shared, shared_profile) ==
        Approx(10e-6 + 2 * nic_s - 10e-6));
}

TEST_CASE("deduplicated dispatch crosses NICs with fewer bytes than all-to-all of whole rows") {
  const auto profile = cost::test::shipped("h100-sxm");
  const topology::Cluster cluster(profile, 32);
  const double row = 2 * 7168;
  const DispatchKernel kernel{.row_bytes = row, .experts = 256, .top_k = 8};
  const Matrix rows(32 * 32, 1024);  // 4096 tokens x 8 / 32
  Matrix bytes(32 * 32, static_cast<std::int64_t>(1024 * row));
  CHECK(dispatch_time_s(kernel, rows, first_ranks(32), cluster, profile) <
        0.6 * cost::all_to_all_time(bytes, first_ranks(32), cluster, profile).total_s);
}

TEST_CASE("H200: DeepEP of 8192 tokens with 24 multiprocessors as measured, within a sixth") {
  // aiconfigurator 095f58a5, 8 GPUs, hidden 7168, top-8 of 256, fp8 dispatch 974 us, bf16 combine 1835 us
  const auto profile = cost::test::shipped("h200-sxm");
  const topology::Cluster cluster(profile, 8);
  const Matrix rows(64, 8192);
  DispatchKernel kernel{.row_bytes = 7168 + 224, .experts = 256, .top_k = 8, .sms = 24};
  CHECK(dispatch_time_s(kernel, rows, first_ranks(8), cluster, profile) == Approx(974e-6).epsilon(1.0 / 6));
  kernel.combine = true;
  kernel.row_bytes = 2 * 7168;
  CHECK(dispatch_time_s(kernel, rows, first_ranks(8), cluster, profile) == Approx(1835e-6).epsilon(1.0 / 6));
}

TEST_CASE("the order of members does not matter, more rows are never faster") {
  const auto profile = round_kernels();
  const topology::Cluster cluster(profile, 32);
  const DispatchKernel kernel{.row_bytes = 1000, .experts = 64, .top_k = 4};
  Matrix rows(16 * 16), reversed(16 * 16);
  for (std::size_t i = 0; i < 16; ++i)
    for (std::size_t j = 0; j < 16; ++j) {
      rows[i * 16 + j] = static_cast<std::int64_t>((i * 7 + j * 13) % 11) * 100;
      reversed[(15 - i) * 16 + (15 - j)] = rows[i * 16 + j];
    }
  const auto ranks = first_ranks(16, 2);
  const std::vector<std::int64_t> back(ranks.rbegin(), ranks.rend());
  std::vector<double> finish(16), mirrored(16);
  cost::dispatch_finish(kernel, rows, ranks, cluster, profile, finish);
  cost::dispatch_finish(kernel, reversed, back, cluster, profile, mirrored);
  for (std::size_t i = 0; i < 16; ++i) CHECK(finish[i] == Approx(mirrored[15 - i]));
  Matrix more = rows;
  more[5] += 10000;
  CHECK(dispatch_time_s(kernel, more, ranks, cluster, profile) >=
        dispatch_time_s(kernel, rows, ranks, cluster, profile));
}

TEST_CASE("the allgather dispatcher is an all-gather of all rows and a reduce-scatter back") {
  const auto profile = cost::test::round_profile();
  const topology::Cluster cluster(profile, 8);
  // 8 ranks x 20000 tokens x 1000 B = 160 MB: 889 us, as the all-gather by hand
  CHECK(cost::allgather_dispatch_time_s(20000, 1000, false, first_ranks(8), cluster, profile) == Approx(889e-6));
  CHECK(cost::allgather_dispatch_time_s(20000, 1000, true, first_ranks(8), cluster, profile) == Approx(889e-6));
  CHECK(cost::allgather_dispatch_time_s(20000, 1000, false, first_ranks(1), cluster, profile) == 0);
}

TEST_CASE("what binds a dispatch kernel: the kernel inside a node, the NIC between nodes, and the slack to the next") {
  const auto profile = round_kernels();
  const topology::Cluster cluster(profile, 16);
  DispatchKernel kernel{.row_bytes = 1000, .experts = 4, .top_k = 2};
  // Rank 0 sends 1200 rows, rank 1 900; rank 0 receives 1100, rank 1 1000. The busier direction of a rank counts:
  // 1200 and 1000 rows x 5/6 x 1000 B over 80 GB/s are 12.5 and 10.417 us; launches are equal.
  const Matrix rows = {600, 600, 500, 400};
  const auto inside = cost::dispatch_time(kernel, rows, first_ranks(2), cluster, profile);
  CHECK(inside.binding == "dispatch kernel of rank 0");
  CHECK(inside.total_s == Approx(10e-6 + 12.5e-6));
  CHECK(inside.slack_s == Approx(12.5e-6 - 1000 * 1000 * 5.0 / 6 / 80e9));
  CHECK(inside.total_s == dispatch_time_s(kernel, rows, first_ranks(2), cluster, profile));
  kernel.combine = true;
  CHECK(cost::dispatch_time(kernel, rows, first_ranks(2), cluster, profile).binding == "combine kernel of rank 0");
  // Two ranks on two nodes: 10 GB/s bind before 80 do.
  const std::vector<std::int64_t> apart = {0, 8};
  CHECK(cost::dispatch_time(kernel, rows, apart, cluster, profile).binding.starts_with("nic "));
  CHECK(cost::dispatch_time(kernel, Matrix(4, 0), apart, cluster, profile).binding.empty());
}
