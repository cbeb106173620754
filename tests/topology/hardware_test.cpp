#include "topology/hardware.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <type_traits>

#include "support.h"
#include "support/holds.h"
#include "topology/hardware_keys.h"

using namespace moeplan;
using topology::Evidence;
using topology::HardwareProfile;
using topology::test::shipped_profile;

namespace {

// Texts of the faults of the H100 profile with one value replaced.
std::string faults_with(const std::string& path, const std::string& value) {
  base::Faults faults;
  topology::read_hardware(config::with_override(shipped_profile("h100-sxm"), path, value, "--set"), "h100-sxm", faults);
  try {
    faults.throw_if_any();
  } catch (const base::Error& error) {
    return error.what();
  }
  return "";
}

using moeplan::test::holds;

}  // namespace

TEST_CASE("every shipped profile reads without a fault, with a source for each value") {
  std::set<std::string> ids, aliases;
  for (const auto& file : std::filesystem::directory_iterator(std::string(MOEPLAN_SOURCE_DIR) + "/hw_profiles")) {
    const std::string id = file.path().stem().string();
    ids.insert(id);
    CAPTURE(id);
    base::Faults faults;
    const HardwareProfile profile = topology::read_hardware(shipped_profile(id), id, faults);
    CHECK_NOTHROW(faults.throw_if_any());
    CHECK(profile.id == id);
    CHECK(!profile.title.empty());
    CHECK(!profile.aliases.empty());
    for (const std::string& alias : profile.aliases) {
      CAPTURE(alias);
      CHECK(aliases.insert(alias).second);  // an alias names one part
    }
    std::set<std::string> keys;
    for (const auto& [key, value] : profile.all()) {
      CAPTURE(key);
      CHECK(keys.insert(key).second);
      CHECK(value.source.size() >= 3);
    }
    int required = 0;
    topology::visit_keys(profile, [&](const char*, const char*, const auto& value, topology::Quantity) {
      required += std::is_same_v<std::remove_cvref_t<decltype(value)>, topology::Value> ? 1 : 0;
    });
    // 4 device, 7 gemm, 3 grouped_gemm, 5 attention, 4 memory_bound, 3 host, 11 network, 3 overheads
    CHECK(required == 40);
    CHECK(keys.size() >= 40);
    // what a kernel reaches stays below the datasheet
    CHECK(profile.gemm.peak.value < profile.device.peak_bf16.value);
    CHECK(profile.memory_bound.bandwidth.value < profile.device.memory_bandwidth.value);
    CHECK(profile.gemm.bandwidth.value < profile.device.memory_bandwidth.value);
    if (profile.gemm.peak_fp8) CHECK(profile.gemm.peak_fp8->value < profile.device.peak_fp8->value);
    if (profile.gemm.peak_mxfp8) CHECK(profile.gemm.peak_mxfp8->value < profile.device.peak_fp8->value);
    if (profile.gemm.peak_fp4) CHECK(profile.gemm.peak_fp4->value < profile.device.peak_fp4->value);
    CHECK(profile.host.memory.has_value());
    CHECK(profile.network.host_link_bandwidth.has_value());
  }
  for (const char* id : {"h100-sxm", "h100-96gb", "h200-sxm", "b200-sxm", "b300-sxm", "gb200-nvl72", "gb300-nvl72",
                         "h800-sxm", "mi355x", "a100-sxm-80gb", "h100-pcie", "h20", "l40s", "rtx-4090", "rtx-5090"})
    CHECK(ids.count(id) == 1);
  CHECK(aliases.count("H100 80GB HBM3") == 1);
  CHECK(aliases.count("B200") == 1);
}

TEST_CASE("optional keys: absent ones are not there, stated ones are read with unit and evidence") {
  base::Faults faults;
  const HardwareProfile h100 = topology::read_hardware(shipped_profile("h100-sxm"), "h100-sxm", faults);
  CHECK(h100.device.peak_fp8->value == doctest::Approx(1979e12));
  CHECK(!h100.device.peak_fp4.has_value());
  CHECK(!h100.gemm.peak_mxfp8.has_value());
  CHECK(!h100.network.oversubscription.has_value());
  CHECK(h100.network.domain_gpus() == 8);
  const HardwareProfile gb200 = topology::read_hardware(shipped_profile("gb200-nvl72"), "gb200-nvl72", faults);
  CHECK(gb200.network.gpus_per_node.value == 4);
  CHECK(gb200.network.scale_up_domain->value == 72);
  CHECK(gb200.network.domain_gpus() == 64);  // ranks_per_domain
  const HardwareProfile rtx = topology::read_hardware(shipped_profile("rtx-4090"), "rtx-4090", faults);
  CHECK(rtx.network.peer_to_peer->value == 0);
  CHECK(!rtx.dispatch.sms.has_value());
  CHECK(faults.empty());
}

namespace {

// Faults of the H100 profile with network keys added, as `key: value` pairs with evidence and source of a test.
std::string network_faults(const std::vector<std::pair<std::string, std::string>>& keys) {
  config::Node root = shipped_profile("h100-sxm");
  for (const auto& [key, value] : keys)
    root = config::with_override(root, "network." + key, "{ value: " + value + ", evidence: assumed, source: test }",
                                 "--set");
  base::Faults faults;
  topology::read_hardware(root, "h100-sxm", faults);
  try {
    faults.throw_if_any();
  } catch (const base::Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("domains and leaves are made of whole nodes: a fabric that blocks names its leaves") {
  CHECK(network_faults({{"scale_up_domain", "72"}}) == "");
  CHECK(holds(network_faults({{"scale_up_domain", "12"}}), "multiple of gpus_per_node (8), got 12"));
  CHECK(network_faults({{"scale_up_domain", "72"}, {"ranks_per_domain", "72"}}) == "");
  CHECK(holds(network_faults({{"scale_up_domain", "72"}, {"ranks_per_domain", "80"}}), "at most the 72 GPUs"));
  CHECK(holds(network_faults({{"ranks_per_domain", "16"}}), "at most the 8 GPUs"));
  CHECK(network_faults({{"oversubscription", "1"}}) == "");
  CHECK(holds(network_faults({{"oversubscription", "0.99"}}), "network.oversubscription"));
  CHECK(holds(network_faults({{"oversubscription", "2"}}), "needs gpus_per_leaf"));
  CHECK(network_faults({{"oversubscription", "2"}, {"gpus_per_leaf", "32"}}) == "");
  CHECK(holds(network_faults({{"gpus_per_leaf", "12"}}), "multiple of gpus_per_node"));
  CHECK(holds(network_faults({{"rails", "true"}}), "needs gpus_per_leaf"));
  CHECK(network_faults({{"rails", "true"}, {"gpus_per_leaf", "12"}}) == "");  // NIC i of 12 nodes
  CHECK(holds(network_faults({{"rails", "1"}, {"gpus_per_leaf", "12"}}), "true"));
  CHECK(network_faults({{"health", "0.5"}}) == "");
  CHECK(holds(network_faults({{"health", "0.49"}}), "network.health"));
  CHECK(holds(network_faults({{"health", "1.01"}}), "network.health"));
}

TEST_CASE("dispatch keys come all or none, and an achieved peak needs its datasheet peak") {
  const std::string text = "{ value: 9000 TFLOP/s, evidence: assumed, source: test }";
  CHECK(holds(faults_with("gemm.peak_fp4", text), "needs device.peak_fp4"));
  CHECK(holds(faults_with("dispatch", "{ sms: { value: 20, evidence: assumed, source: test } }"),
              "missing key 'rate_per_sm'"));
}

TEST_CASE("values are held in base units, with their evidence") {
  base::Faults faults;
  const HardwareProfile profile = topology::read_hardware(shipped_profile("h200-sxm"), "h200-sxm", faults);
  CHECK(profile.device.memory_capacity.value == 143771.0 * 1024 * 1024);
  CHECK(profile.gemm.launch.value == doctest::Approx(2.46e-6));
  CHECK(profile.gemm.bandwidth.value == doctest::Approx(3.933e12));
  CHECK(profile.gemm.peak.value == doctest::Approx(842e12));
  CHECK(profile.gemm.peak.evidence == Evidence::published);
  CHECK(profile.device.peak_bf16.evidence == Evidence::datasheet);
  CHECK(profile.network.nic_bandwidth.value == doctest::Approx(50e9));
  CHECK(profile.network.message_half_size.value == 225000.0);
}

TEST_CASE("all() keeps the order of the file") {
  base::Faults faults;
  const config::Node root = shipped_profile("ascend-910b-64gb");
  const auto values = topology::read_hardware(root, "ascend", faults).all();
  std::vector<std::string> written;
  for (const std::string& section : root.keys()) {
    if (section == "title" || section == "aliases") continue;
    for (const std::string& key : root.at(section).keys()) written.push_back(section + "." + key);
  }
  REQUIRE(written.size() == values.size());
  for (std::size_t i = 0; i < written.size(); ++i) CHECK(values[i].first == written[i]);
}

TEST_CASE("the place of gpus_per_node is kept for rules that other files take part in") {
  base::Faults faults;
  const HardwareProfile profile = topology::read_hardware(shipped_profile("h100-sxm"), "h100-sxm", faults);
  CHECK(holds(profile.where_gpus_per_node.file, "h100-sxm.yaml"));
  CHECK(profile.where_gpus_per_node.line > 1);
  CHECK(holds(profile.where_gpus_per_node.key, "network.gpus_per_node"));
}

TEST_CASE("evidence has four names, strongest first") {
  CHECK(topology::evidence_name(Evidence::measured) == "measured");
  CHECK(topology::evidence_name(Evidence::published) == "published");
  CHECK(topology::evidence_name(Evidence::datasheet) == "datasheet");
  CHECK(topology::evidence_name(Evidence::assumed) == "assumed");
  CHECK(Evidence::measured < Evidence::published);
  CHECK(Evidence::datasheet < Evidence::assumed);
}

TEST_CASE("a value without its unit is refused with an example") {
  CHECK(holds(faults_with("gemm.peak.value", "842"), "TFLOP/s"));
  CHECK(holds(faults_with("gemm.peak.value", "842 GB/s"), "TFLOP/s"));
  CHECK(faults_with("gemm.peak.value", "842 TFLOP/s") == "");
}

TEST_CASE("ranges: both sides of each boundary") {
  CHECK(faults_with("network.nic_efficiency.value", "1.5") == "");
  CHECK(holds(faults_with("network.nic_efficiency.value", "1.51"), "network.nic_efficiency"));
  CHECK(holds(faults_with("network.nic_efficiency.value", "0"), "network.nic_efficiency"));
  CHECK(faults_with("network.nic_efficiency.value", "0.001") == "");
  CHECK(faults_with("network.nic_latency.value", "0 us") == "");
  CHECK(holds(faults_with("network.nic_latency.value", "-1 us"), "network.nic_latency"));
  CHECK(holds(faults_with("device.memory_capacity.value", "0 GiB"), "device.memory_capacity"));
  CHECK(faults_with("device.memory_capacity.value", "1 GiB") == "");
  CHECK(faults_with("overheads.workspace.value", "0 MiB") == "");
  CHECK(holds(faults_with("network.gpus_per_node.value", "0"), "network.gpus_per_node"));
  CHECK(faults_with("network.gpus_per_node.value", "1") == "");
  CHECK(holds(faults_with("network.gpus_per_node.value", "7.5"), "network.gpus_per_node"));
  CHECK(holds(faults_with("network.collective_exponent.value", "0"), "network.collective_exponent"));
}

TEST_CASE("an unknown evidence or key gets the nearest name") {
  CHECK(holds(faults_with("gemm.k_pad.evidence", "publishd"), "published"));
  const std::string misspelt = faults_with("gemm.kpad", "{ value: 1, evidence: assumed, source: test }");
  CHECK(holds(misspelt, "k_pad"));
  CHECK(holds(faults_with("gemm.k_pad.unit", "elements"), "unit"));
  CHECK(holds(faults_with("gemms", "{}"), "gemm"));
}

TEST_CASE("a value needs its source and its evidence") {
  CHECK(holds(faults_with("gemm.k_pad", "{ value: 194, evidence: assumed }"), "missing key 'source'"));
  CHECK(holds(faults_with("gemm.k_pad", "{ value: 194, source: test }"), "missing key 'evidence'"));
  CHECK(holds(faults_with("gemm.k_pad", "194"), "gemm.k_pad"));
}

TEST_CASE("all faults of a file come in one pass: a missing section is one fault") {
  const std::string text =
      "title: Small\n"
      "device:\n"
      "  memory_capacity: { value: 80, evidence: datasheet, source: test }\n"
      "  sm_count: { value: 132, evidence: guess, source: test }\n";
  base::Faults faults;
  topology::read_hardware(config::parse_yaml(text, "small.yaml"), "small", faults);
  // bare size; unknown evidence; peak_bf16 and memory_bandwidth missing; seven sections missing
  CHECK(faults.size() == 11);
}
