#include <doctest/doctest.h>

#include "support.h"

using namespace moeplan;
using namespace moeplan::scenario;
using namespace moeplan::scenario::testing;

namespace {

double value_of(const topology::HardwareProfile& profile, const char* path) {
  return topology::value_at(profile, path)->value;
}

}  // namespace

TEST_CASE("a step takes the values of the library that its framework runs, unless it says otherwise") {
  const auto profile = [](Settings overrides) {
    overrides.insert(overrides.begin(), {"hardware", "b200-sxm"});
    return resolve(kSmall, std::move(overrides)).hardware;
  };
  const auto own = profile({{"cluster.kernel_library", "none"}}), by_framework = profile({});
  const auto* library = topology::find_library(own, "TransformerEngine");
  REQUIRE(library != nullptr);
  double peak = 0;
  for (const auto& [path, value] : library->values)
    if (path == "gemm.peak") peak = value.value;
  CHECK(value_of(own, "gemm.peak") > peak);  // the profile's own is that of short bursts
  CHECK(value_of(by_framework, "gemm.peak") == peak);
  CHECK(value_of(profile({{"framework", "torchtitan"}, {"sharding", "fsdp2"}}), "gemm.peak") ==
        value_of(own, "gemm.peak"));
  CHECK(
      value_of(profile({{"framework", "torchtitan"}, {"sharding", "fsdp2"}, {"kernel_library", "transformer-engine"}}),
               "gemm.peak") == peak);
  // Groups are issued one by one by the host, which the step counts itself.
  CHECK(topology::value_at(by_framework, "grouped_gemm.group_issue") == nullptr);
  // What the command line states stands.
  CHECK(value_of(profile({{"hardware.gemm.peak", "1500 TFLOP/s"}}), "gemm.peak") == 1500e12);
}

TEST_CASE("torchtitan runs PyTorch's attention, FlashAttention 2 on Hopper") {
  const auto profile = [](Settings overrides) {
    overrides.insert(overrides.end(), {{"hardware", "h100-sxm"}, {"framework", "torchtitan"}, {"sharding", "fsdp2"}});
    return resolve(kSmall, std::move(overrides)).hardware;
  };
  const auto pytorch = profile({}), own = profile({{"cluster.kernel_library", "none"}});
  CHECK(value_of(pytorch, "attention.peak_hd128") < 0.55 * value_of(own, "attention.peak_hd128"));
  CHECK(value_of(pytorch, "gemm.peak") == value_of(own, "gemm.peak"));
  // FlashAttention 3's paper: 333 TFLOP/s for 8192 causal tokens, 191 for 512.
  const double peak = value_of(pytorch, "attention.peak_hd128"),
               half = value_of(pytorch, "attention.half_length_hd128");
  CHECK(peak * 8192 / (8192 + half) == doctest::Approx(333e12).epsilon(0.015));
  CHECK(peak * 512 / (512 + half) == doctest::Approx(191e12).epsilon(0.08));
}

TEST_CASE("a library that the profile does not hold is refused with the nearest name, the framework's is not missed") {
  const auto faults = faults_of(kSmall, {{"hardware", "b200-sxm"}, {"kernel_library", "transformer-engin"}});
  REQUIRE(faults.size() == 1);
  CHECK(holds(faults[0].message, "expected one of none, transformer-engine"));
  CHECK(holds(faults[0].message, "got 'transformer-engin'"));
  CHECK(holds(faults[0].hint, "transformer-engine"));
  CHECK(faults_of(kSmall, {{"hardware", "a100-sxm-80gb"}}).empty());
  CHECK(faults_of(kSmall, {{"hardware", "a100-sxm-80gb"}, {"kernel_library", "transformer-engine"}}).size() == 1);
}

TEST_CASE("a part is found under the names that logs and tables use, and keeps its own") {
  for (const char* name : {"b200-sxm", "B200", "nvidia b200"}) {
    CAPTURE(std::string(name));
    const Scenario scenario = resolve(kSmall, {{"hardware", name}});
    CHECK(scenario.hardware.id == "b200-sxm");
  }
  CHECK(faults_of(kSmall, {{"hardware", "B2000"}}).size() == 1);
}
