#pragma once
#include <doctest/doctest.h>
#include <rapidcheck.h>

#include <cstdint>
#include <memory>
#include <ostream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "plan/plan.h"
#include "scenario/scenario.h"

// Small scenarios drawn at random, and a way to state what must hold for all of them. Models of tests/data/models.
namespace moeplan::property {

// A scenario by its moving parts; text() is the file that a user would write.
struct Case {
  std::string model = "tiny-moe";
  std::int64_t tp = 1, cp = 1, pp = 1, vpp = 1, ep = 1, etp = 1;
  std::int64_t copies = 1;  // a stage has so many times the ranks that it needs
  std::int64_t mbs = 1, microbatches = 1, seq = 64;
  std::string schedule;  // empty: the default
  bool overlap_p2p = false;
  std::string sharding = "zero1", kind = "adam";
  bool fused = true;     // gradient accumulation
  std::string training;  // further keys, each behind a comma
  std::string memory = "{}";
  std::string dispatcher = "alltoall";
  std::string policies = "{}";
  std::string routing = "{ balanced: true }";

  std::int64_t gpus() const;
  std::string text() const;
  std::shared_ptr<const scenario::Scenario> make() const;
  plan::Plan plan() const;
};
std::ostream& operator<<(std::ostream& out, const Case& c);  // its text

// Any layout, schedule, sharding, recompute, dispatcher, policy and routing that go together.
rc::Gen<Case> any_case();
// As any_case, without policies and recompute: for properties that set their own.
rc::Gen<Case> plain_case();

// With a schedule whose weight gradients come apart from backward, as many microbatches as it needs and a few more.
rc::Gen<Case> split_case();

// Checks `property`, a function of rapidcheck's, with so many cases that are the same in every run; a counterexample is
// shrunk and printed.
template <typename Property>
void for_all(const char* name, int cases, Property&& property) {
  rc::detail::TestMetadata metadata;
  metadata.id = metadata.description = name;
  rc::detail::TestParams params;
  params.seed = 20;
  params.maxSuccess = cases;
  const rc::detail::TestResult result = rc::detail::checkTestable(std::forward<Property>(property), metadata, params);
  std::ostringstream text;
  rc::detail::printResultMessage(result, text);
  CHECK_MESSAGE(result.template is<rc::detail::SuccessResult>(), text.str());
}

}  // namespace moeplan::property
