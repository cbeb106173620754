#include "cost/evidence.h"

#include <doctest/doctest.h>

#include <map>

#include "support.h"

using namespace moeplan;
using cost::FamilyEvidence;
using topology::Evidence;

namespace {

std::map<std::string, FamilyEvidence> by_name(const topology::HardwareProfile& profile) {
  std::map<std::string, FamilyEvidence> families;
  for (const FamilyEvidence& family : cost::family_evidence(profile)) families[family.family] = family;
  return families;
}

// Every value published.
topology::HardwareProfile published() {
  topology::HardwareProfile profile = cost::test::round_profile();
  for (topology::Value* value : {&profile.device.memory_capacity,
                                 &profile.device.sm_count,
                                 &profile.device.peak_bf16,
                                 &profile.device.memory_bandwidth,
                                 &profile.gemm.launch,
                                 &profile.gemm.bandwidth,
                                 &profile.gemm.peak,
                                 &profile.gemm.k_pad,
                                 &profile.gemm.overlap_exponent,
                                 &profile.gemm.dgrad_efficiency,
                                 &profile.gemm.wgrad_efficiency,
                                 &profile.grouped_gemm.tile_rows,
                                 &profile.grouped_gemm.efficiency,
                                 &profile.grouped_gemm.group_overhead,
                                 &profile.attention.peak_hd128,
                                 &profile.attention.half_length_hd128,
                                 &profile.attention.peak_hd64,
                                 &profile.attention.half_length_hd64,
                                 &profile.attention.backward_rate,
                                 &profile.memory_bound.floor,
                                 &profile.memory_bound.bandwidth,
                                 &profile.memory_bound.permute_efficiency,
                                 &profile.memory_bound.loss_efficiency,
                                 &profile.host.launch,
                                 &profile.host.operation,
                                 &profile.host.sync,
                                 &profile.network.gpus_per_node,
                                 &profile.network.scale_up_bandwidth,
                                 &profile.network.scale_up_efficiency,
                                 &profile.network.scale_up_latency,
                                 &profile.network.nics_per_node,
                                 &profile.network.nic_bandwidth,
                                 &profile.network.nic_efficiency,
                                 &profile.network.nic_latency,
                                 &profile.network.message_half_size,
                                 &profile.network.collective_efficiency,
                                 &profile.network.collective_exponent,
                                 &profile.overheads.context,
                                 &profile.overheads.communicator,
                                 &profile.overheads.workspace})
    value->evidence = Evidence::published;
  return profile;
}

}  // namespace

TEST_CASE("each family of operations is named once") {
  const auto families = cost::family_evidence(published());
  std::vector<std::string> names;
  for (const FamilyEvidence& family : families) {
    names.push_back(family.family);
    CHECK(family.evidence == Evidence::published);
  }
  CHECK(names == std::vector<std::string>{"dense GEMM", "grouped GEMM", "attention", "memory-bound", "host",
                                          "all-to-all", "collectives"});
}

TEST_CASE("one weak value weakens the families that read it, and no other") {
  topology::HardwareProfile profile = published();
  profile.gemm.k_pad.evidence = Evidence::assumed;
  auto families = by_name(profile);
  CHECK(families["dense GEMM"].evidence == Evidence::assumed);
  CHECK(families["dense GEMM"].weakest_key == "gemm.k_pad");
  CHECK(families["grouped GEMM"].weakest_key == "gemm.k_pad");
  CHECK(families["attention"].evidence == Evidence::published);
  CHECK(families["all-to-all"].evidence == Evidence::published);

  profile = published();
  profile.network.collective_exponent.evidence = Evidence::datasheet;
  families = by_name(profile);
  CHECK(families["collectives"].evidence == Evidence::datasheet);
  CHECK(families["all-to-all"].evidence == Evidence::published);
  CHECK(families["dense GEMM"].evidence == Evidence::published);
}

TEST_CASE("the weakest of several wins: among equals the first of the file") {
  topology::HardwareProfile profile = published();
  profile.host.launch.evidence = Evidence::datasheet;
  profile.host.sync.evidence = Evidence::assumed;
  CHECK(by_name(profile)["host"].weakest_key == "host.sync");
  profile.host.launch.evidence = Evidence::assumed;
  CHECK(by_name(profile)["host"].weakest_key == "host.launch");
}
