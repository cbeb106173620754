#include <doctest/doctest.h>

#include "support.h"

using namespace moeplan;
using namespace moeplan::scenario;
using namespace moeplan::scenario::testing;
using What = topology::DegradedLink::What;

namespace {

std::string with(const std::string& list) {
  return small_with("cluster: { hardware: h100-sxm, gpus: 8 }",
                    "cluster: { hardware: h100-sxm, gpus: 16, degraded: " + list + " }");
}

}  // namespace

TEST_CASE("degraded links of a scenario reach its profile in order") {
  const Scenario scenario = resolve(with("[{ rail: 2, share: 0 }, { nic: 12, share: 0.5 }]"));
  REQUIRE(scenario.hardware.degraded.size() == 2);
  CHECK(scenario.hardware.degraded[0].what == What::rail);
  CHECK(scenario.hardware.degraded[0].which == 2);
  CHECK(scenario.hardware.degraded[0].share == 0);
  CHECK(scenario.hardware.degraded[1].what == What::nic);
  CHECK(scenario.hardware.degraded[1].which == 12);
  CHECK(scenario.hardware.degraded[1].share == 0.5);
  CHECK(resolve().hardware.degraded.empty());
  CHECK(resolve(with("[]")).hardware.degraded.empty());
  const Scenario by_option = resolve(kSmall, {{"cluster.degraded", "[{ rail: 2, share: 0.5 }]"}});
  REQUIRE(by_option.hardware.degraded.size() == 1);
  CHECK(by_option.hardware.degraded[0].share == 0.5);
}

TEST_CASE("what is wrong in a list of degraded links is told all at once, with its place and the nearest name") {
  const std::string text =
      refusal(with("[{ rial: 2, share: 0.5 }, { nic: 3 }, { share: 0.5 }, { pod: 1, rail: 1, share: 2 }]"));
  CHECK(holds(text, "did you mean 'rail'"));
  CHECK(holds(text, "missing key 'share'"));
  CHECK(holds(text, "expected one of nic, rail, pod"));
  CHECK(holds(text, "one link has one name, and 'rail' is given, too"));
  CHECK(holds(text, "s.yaml:2:"));
  CHECK(holds(refusal(with("2")), "list"));
  CHECK(holds(refusal(with("[rail]")), "mapping"));
}

TEST_CASE("links that the cluster does not have are refused with both places") {
  const auto faults = faults_of(with("[{ nic: 16, share: 0.5 }, { rail: 8, share: 0 }, { pod: 0, share: 0.5 }]"));
  REQUIRE(faults.size() == 3);
  CHECK(holds(faults[0].message, "no rank 16"));
  CHECK(holds(faults[1].message, "no rail 8"));
  CHECK(holds(faults[2].message, "not oversubscribed"));
  for (const base::Fault& fault : faults) {
    CHECK(fault.where.line == 2);
    CHECK(fault.also.size() == 1);
  }
  CHECK(refusal(with("[{ nic: 15, share: 0.5 }, { rail: 7, share: 0.5 }]")).empty());
}
