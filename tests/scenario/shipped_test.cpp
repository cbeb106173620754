#include <doctest/doctest.h>

#include <numeric>

#include "support.h"

using namespace moeplan;
using namespace moeplan::scenario;
using namespace moeplan::scenario::testing;

namespace {

const std::string kScenarios = std::string(MOEPLAN_SOURCE_DIR) + "/scenarios/";

}  // namespace

TEST_CASE("the first scenario of the documentation resolves") {
  const Scenario s = load_scenario(kScenarios + "quickstart.yaml", {});
  CHECK(s.model.id == "deepseek-v2-lite");
  CHECK(s.layout.dp() == 16);
  CHECK(s.layout.ep == 8);
  CHECK(s.microbatches() == 4);
  CHECK(s.routing_label == "trace");
  CHECK(s.warnings.empty());
  CHECK(s.assumptions.empty());
  // 4096 tokens with 6 of 64 experts each.
  std::vector<std::int64_t> counts(64, 0);
  s.loads->add_counts({0, 0, 0, 0, 4096}, 0, counts);
  CHECK(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}) == 4096 * 6);
}

TEST_CASE("the first scenario also takes the changes that its comments suggest") {
  Options options;
  options.overrides = {{"ep", "16"}, {"memfine.chunks", "8"}};
  const Scenario s = load_scenario(kScenarios + "quickstart.yaml", options);
  CHECK(s.layout.ep == 16);
  CHECK(s.policies.memfine->chunks == 8);
}

TEST_CASE("the scenarios of MemFine's table 4 resolve, and their hot rank gets 597,000 rows") {
  for (const std::string model : {"1", "2"}) {
    for (const std::string method : {"full", "fixed8", "adaptive"}) {
      CAPTURE(model);
      CAPTURE(method);
      const Scenario s = load_scenario(kScenarios + "papers/memfine/model-" + model + "-" + method + ".yaml", {});
      CHECK(s.layout.dp() == 32);
      CHECK(s.layout.ep == 32);
      CHECK(s.microbatches() == 30);
      CHECK(s.recompute.granularity == RecomputeGranularity::full);
      CHECK(s.memory.accounting == Accounting::closed_form);
      CHECK(s.memory.given_static_bytes == (model == "1" ? 43'000'000'000 : 39'500'000'000));
      CHECK(s.policies.memfine.has_value() == (method != "full"));
      // Experts 0 to 7 live on the first rank of 32 and have 74,625 copies each in the file: 8 x 74,625 over all
      // replicas.
      std::vector<std::int64_t> counts(256, 0);
      for (std::int64_t replica = 0; replica < 32; ++replica) {
        s.loads->add_counts({0, 0, replica, 0, 4096}, s.model.moe_layer_count() - 1, counts);
      }
      CHECK(std::accumulate(counts.begin(), counts.begin() + 8, std::int64_t{0}) == 597'000);
      CHECK(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}) == 1'048'576);
    }
  }
}
