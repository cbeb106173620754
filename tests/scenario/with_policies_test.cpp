#include <doctest/doctest.h>

#include "support.h"

using namespace moeplan;
using namespace moeplan::scenario;
using namespace moeplan::scenario::testing;

namespace {

const base::Where kOption{"--policies", 0, 0, {}};

std::string refused(const Scenario& scenario, const std::string& names) {
  try {
    with_policies(scenario, names, kOption);
  } catch (const base::Error& error) {
    return error.what();
  }
  return {};
}

}  // namespace

TEST_CASE("none turns policies off and keeps the recompute settings") {
  const Scenario s = resolve(kSmall, {{"recompute_granularity", "selective"}, {"recompute_modules", "[moe_act]"}});
  const Scenario none = with_policies(s, "none", kOption);
  CHECK_FALSE(none.policies.memfine);
  CHECK_FALSE(none.policies.lrmoe);
  CHECK(none.recompute.granularity == RecomputeGranularity::selective);
  CHECK(none.recompute.modules == s.recompute.modules);
}

TEST_CASE("a bare name takes the scenario's settings where it has some, else the usual ones") {
  const Scenario s = resolve();  // memfine fixed, 4 chunks
  const Scenario both = with_policies(s, "memfine+lrmoe", kOption);
  REQUIRE(both.policies.memfine);
  CHECK(both.policies.memfine->rule == policy::MemfineSettings::Rule::fixed);
  CHECK(both.policies.memfine->chunks == 4);
  REQUIRE(both.policies.lrmoe);
  CHECK(both.policies.lrmoe->tau == 1.1);
  CHECK(both.policies.lrmoe->min_rows == 128);
  CHECK(both.policies.lrmoe->min_retained == 0.5);
  const Scenario usual = with_policies(resolve(kSmall, {{"policies", "{}"}}), "memfine", kOption);
  REQUIRE(usual.policies.memfine);
  CHECK(usual.policies.memfine->rule == policy::MemfineSettings::Rule::adaptive);
  CHECK(usual.policies.memfine->bins == std::vector<std::int64_t>{1, 2, 4, 8});
  CHECK_FALSE(usual.policies.lrmoe);
}

TEST_CASE("recompute-moe adds the module to the recompute settings") {
  const Scenario bare = with_policies(resolve(), "recompute-moe", kOption);
  CHECK_FALSE(bare.policies.memfine);
  CHECK(bare.recompute.granularity == RecomputeGranularity::selective);
  CHECK(bare.recompute.modules == std::set<RecomputeModule>{RecomputeModule::moe});
  const Settings selective = {{"recompute_granularity", "selective"}, {"recompute_modules", "[moe_act]"}};
  CHECK(with_policies(resolve(kSmall, selective), "recompute-moe", kOption).recompute.modules ==
        std::set<RecomputeModule>{RecomputeModule::moe_act, RecomputeModule::moe});
  const Scenario full = with_policies(resolve(kSmall, {{"recompute_granularity", "full"}}), "recompute-moe", kOption);
  CHECK(full.recompute.granularity == RecomputeGranularity::full);
}

TEST_CASE("the module moe beside a policy that recomputes the routed part is a warning, and goes with the policy") {
  const std::string warning = "the policy recomputes the routed part already";
  const Scenario s = resolve(kSmall, {{"recompute_granularity", "selective"}, {"recompute_modules", "[moe]"}});
  CHECK(holds(s.warnings, warning));
  CHECK_FALSE(holds(with_policies(s, "none", kOption).warnings, warning));
  const Scenario joined = with_policies(resolve(), "recompute-moe+memfine", kOption);
  CHECK(holds(joined.warnings, warning));
}

TEST_CASE("names that cannot be turned on are refused at the option") {
  const Scenario s = resolve();
  CHECK(refused(s, "memfin") ==
        "--policies: expected one of none, recompute-moe, capacity, memfine, lrmoe, got 'memfin'\n  hint: did you mean "
        "'memfine'?");
  CHECK(holds(refused(s, ""), "got ''"));
  CHECK(holds(refused(s, "memfine+"), "got ''"));
  CHECK(holds(refused(s, "memfine+memfine"), "'memfine' is listed twice"));
  CHECK(holds(refused(s, "none+memfine"), "'none' cannot be joined"));
  const Scenario dense = resolve(R"(model: tiny-dense
cluster: { hardware: h100-sxm, gpus: 8 }
training: { micro_batch_size: 1, global_batch_size: 8, seq_length: 128 }
)");
  CHECK(holds(refused(dense, "memfine"), "'memfine' needs a model with MoE layers"));
  CHECK(refused(dense, "none").empty());
}
