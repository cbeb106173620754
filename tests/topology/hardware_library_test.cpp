#include <doctest/doctest.h>

#include "base/error.h"
#include "config/document.h"
#include "support.h"
#include "topology/hardware.h"

using namespace moeplan;
using topology::HardwareProfile;
using topology::test::shipped_profile;

namespace {

// A shipped profile with other libraries and shapes, and what is wrong with them.
HardwareProfile with(const std::string& path, const std::string& value, std::string* faults_text = nullptr) {
  base::Faults faults;
  const config::Node root = config::with_override(shipped_profile("h20"), path, value, "--set");
  const HardwareProfile profile = topology::read_hardware(root, "h20", faults);
  try {
    faults.throw_if_any();
  } catch (const base::Error& error) {
    REQUIRE(faults_text != nullptr);
    *faults_text = error.what();
  }
  return profile;
}

std::string faults_of(const std::string& path, const std::string& value) {
  std::string text;
  with(path, value, &text);
  return text;
}

bool contains(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

const std::string kPeak = "{ value: 99 TFLOP/s, evidence: measured, source: test }";

}  // namespace

TEST_CASE("a library's values stand in for the profile's, found by a part of its name in any letter case") {
  const HardwareProfile profile =
      with("libraries", "{ ours: { matches: [Ours, mine], gemm: { peak: " + kPeak + " } } }");
  REQUIRE(profile.libraries.size() == 1);
  CHECK(topology::find_library(profile, "release 1 of OURS") == &profile.libraries[0]);
  CHECK(topology::find_library(profile, "mine too") == &profile.libraries[0]);
  CHECK(topology::find_library(profile, "theirs") == nullptr);
  CHECK(topology::find_library(profile, "") == nullptr);
  const HardwareProfile own = topology::with_library(profile, profile.libraries[0]);
  CHECK(own.gemm.peak.value == 99e12);
  CHECK(own.gemm.launch.value == profile.gemm.launch.value);
  CHECK(profile.gemm.peak.value != 99e12);
  CHECK(profile.all().back().first == "libraries.ours.gemm.peak");
}

TEST_CASE("values are found and set by their dotted key, optional ones added") {
  HardwareProfile profile = with("title", "x");
  CHECK(topology::value_at(profile, "gemm.peak")->value == profile.gemm.peak.value);
  CHECK(topology::value_at(profile, "gemm.sustained") == nullptr);
  topology::set_value(profile, "gemm.sustained", {1e12, topology::Evidence::measured, "test"});
  CHECK(profile.gemm.sustained->value == 1e12);
  CHECK(topology::value_at(profile, "gemm") == nullptr);
  CHECK(topology::value_at(profile, "gemm.") == nullptr);
}

TEST_CASE("libraries with unknown keys, no names or wrong values are faults with their place") {
  CHECK(contains(faults_of("libraries", "{ ours: { gemm: { peak: " + kPeak + " } } }"), "matches"));
  CHECK(contains(faults_of("libraries", "{ ours: { matches: [a], gemm: { peek: " + kPeak + " } } }"),
                 "did you mean 'peak'"));
  CHECK(contains(faults_of("libraries", "{ ours: { matches: [a], gem: {} } }"), "gem"));
  CHECK(contains(faults_of("libraries", "[a]"), "expected a mapping of library names"));
  CHECK(
      contains(faults_of("libraries",
                         "{ ours: { matches: [a], gemm: { peak: { value: 9 us, evidence: measured, source: t } } } }"),
               "libraries.ours.gemm.peak"));
}

TEST_CASE("the share of rates that steps reach is at most one, and not of single operations") {
  CHECK(contains(faults_of("gemm.in_steps", "{ value: 1.1, evidence: measured, source: test }"), "gemm.in_steps"));
  CHECK(contains(faults_of("gemm.in_steps", "{ value: 0, evidence: measured, source: test }"), "gemm.in_steps"));
  topology::HardwareProfile profile = with("gemm.in_steps", "{ value: 1, evidence: measured, source: test }");
  CHECK(profile.gemm.in_steps->value == 1.0);
  profile.gemm.drop_sustained();
  CHECK_FALSE(profile.gemm.in_steps.has_value());
}

TEST_CASE("a sustained rate above the burst rate is a fault") {
  CHECK(contains(faults_of("gemm.sustained", "{ value: 1 PFLOP/s, evidence: measured, source: test }"),
                 "at most gemm.peak"));
  CHECK(with("gemm.sustained", "{ value: 1 TFLOP/s, evidence: measured, source: test }").gemm.sustained->value == 1e12);
}

TEST_CASE("sustained rates of other precisions need their burst rates, and stay below them") {
  const auto rate = [](const char* value) {
    return std::string("{ value: ") + value + " TFLOP/s, evidence: measured, source: test }";
  };
  CHECK(contains(faults_of("gemm.sustained_fp8", rate("9000000")), "at most gemm.peak_fp8"));
  CHECK(with("gemm.sustained_fp8", rate("1")).gemm.sustained_fp8->value == 1e12);
  CHECK(contains(faults_of("gemm.sustained_mxfp8", rate("1")), "needs gemm.peak_mxfp8"));
}

TEST_CASE("a number is what its key of a profile may be, on both sides of each limit") {
  // Counts are whole and from 1 to a million, bytes are rounded and more than none, times may be none and a thousand
  // seconds at most.
  CHECK(topology::value_fault("device.sm_count", 1) == "");
  CHECK(topology::value_fault("device.sm_count", 1e6) == "");
  CHECK(topology::value_fault("device.sm_count", 0.5) == "expected a whole number >= 1, at most 1e+06, got 0.5");
  CHECK(topology::value_fault("device.sm_count", 131.5) != "");
  CHECK(topology::value_fault("device.sm_count", 1000001) != "");
  CHECK(topology::value_fault("device.memory_capacity", 0.6) == "");
  CHECK(topology::value_fault("device.memory_capacity", 0.4) != "");
  CHECK(topology::value_fault("host.launch", 0) == "");
  CHECK(topology::value_fault("host.launch", 1e3) == "");
  CHECK(topology::value_fault("host.launch", 1001) != "");
  CHECK(topology::value_fault("gemm.sustained", 1e21) == "");
  CHECK(topology::value_fault("gemm.sustained", 1.1e21) != "");
}

TEST_CASE("measured shapes are sorted, and wrong ones are faults") {
  const HardwareProfile profile = with("shapes",
                                       "[{ op: gemm, pass: wgrad, sizes: [3, 2, 1], time: 5 us },"
                                       " { op: attention, pass: backward, sizes: [1, 2, 3, 4, 5], time: 1 ms }]");
  REQUIRE(profile.shapes.size() == 2);
  CHECK(profile.shapes[0].op == "attention");
  CHECK(profile.shapes[0].seconds == doctest::Approx(1e-3));
  CHECK(profile.shapes[1].dtype == "bf16");
  CHECK(contains(faults_of("shapes", "[{ op: gemm, pass: forward, sizes: [1, 2], time: 5 us }]"), "expected 3 sizes"));
  CHECK(contains(faults_of("shapes", "[{ op: gemm, pass: backward, sizes: [1, 2, 3], time: 5 us }]"), "backward"));
  CHECK(contains(faults_of("shapes", "[{ op: gemm, pass: forward, sizes: [1, 2, 3], time: 5 }]"), "time"));
  CHECK(contains(faults_of("shapes",
                           "[{ op: gemm, pass: forward, sizes: [1, 2, 3], time: 5 us },"
                           " { op: gemm, pass: forward, sizes: [1, 2, 3], time: 6 us }]"),
                 "stands twice"));
}

TEST_CASE("a spread is above 0 and at most 2, and says nothing of where times come from") {
  const auto spread = [](const std::string& value) {
    return "{ value: " + value + ", evidence: measured, source: test }";
  };
  CHECK(with("gemm.spread", spread("2")).gemm.spread->value == 2);
  CHECK(contains(faults_of("gemm.spread", spread("2.001")), "2.001"));
  CHECK(contains(faults_of("host.spread", spread("0")), "spread"));
  CHECK(topology::value_at(with("network.spread", spread("0.1")), "network.spread")->value == 0.1);
}
