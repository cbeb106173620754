#include "search/explain.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "search/levers.h"
#include "support/scenarios.h"

using namespace moeplan;
using search::Change;
using search::Lever;

namespace {

const std::string kQuickstart = MOEPLAN_SOURCE_DIR "/scenarios/quickstart.yaml";

const Lever* find(const std::vector<Lever>& levers, const std::string& name) {
  const auto at = std::find_if(levers.begin(), levers.end(), [&](const Lever& lever) { return lever.name == name; });
  return at == levers.end() ? nullptr : &*at;
}

const Change* find(const std::vector<Change>& changes, const std::string& name) {
  const auto at = std::find_if(changes.begin(), changes.end(), [&](const Change& c) { return c.name == name; });
  return at == changes.end() ? nullptr : &*at;
}

search::Explanation explained(const std::vector<std::pair<std::string, std::string>>& settings, std::size_t pairs) {
  scenario::Options options;
  options.overrides = settings;
  return search::explain(kQuickstart, options, {pairs, std::nullopt}, 2);
}

Lever lever(search::Verdict verdict, std::int64_t saving, double step) {
  Lever result;
  result.verdict = verdict;
  result.saving_bytes = saving;
  result.step_s = step;
  return result;
}

}  // namespace

TEST_CASE("every change is the scenario with --set, evaluated") {
  const auto explanation = explained({}, 3);
  const Lever* moe_act = find(explanation.singles, "recompute moe_act");
  REQUIRE(moe_act != nullptr);
  CHECK(moe_act->set == "--set recompute_granularity=selective --set 'recompute_modules=[moe_act]'");
  const auto same = search::evaluate(test::scenario_file(
      "quickstart.yaml", {{"recompute_granularity", "selective"}, {"recompute_modules", "[moe_act]"}}));
  CHECK(moe_act->device_bytes == same.fit.device_bytes);
  CHECK(moe_act->allocated_bytes == same.worst.peak.allocated_bytes);
  CHECK(moe_act->step_s == same.step_s);
  CHECK(moe_act->saving_bytes == explanation.base.fit.device_bytes - same.fit.device_bytes);
  // 27 layers do not divide by 2.
  REQUIRE(find(explanation.refused, "PP doubled") != nullptr);
  CHECK(find(explanation.refused, "PP doubled")->refused.find("divisor of the 27 layers") != std::string::npos);
}

TEST_CASE("changes of the optimizer, of fp8 parameters and of groups of layers are proposed where they apply") {
  const auto names = [](const std::vector<std::pair<std::string, std::string>>& settings) {
    std::vector<std::string> list;
    for (const Change& change : search::single_changes(*test::scenario_file("quickstart.yaml", settings)))
      list.push_back(change.name);
    return list;
  };
  const auto proposes = [](const std::vector<std::string>& list, const std::string& name) {
    return std::find(list.begin(), list.end(), name) != list.end();
  };
  const auto plain = names({});
  for (const char* name : {"matrices dealt out", "fp8 parameters", "gradient accumulation fused",
                           "recompute in groups of 2 layers", "recompute every layer by itself"})
    CHECK_FALSE(proposes(plain, name));
  const auto muon = names({{"optimizer", "{ kind: muon }"}});
  CHECK(proposes(muon, "matrices dealt out"));
  CHECK_FALSE(proposes(muon, "optimizer on the host"));
  CHECK_FALSE(proposes(muon, "sharding zero1"));
  CHECK(proposes(names({{"precision", "fp8_tensorwise"}}), "fp8 parameters"));
  CHECK_FALSE(proposes(names({{"precision", "fp8_tensorwise"}, {"fp8_param_gather", "true"}}), "fp8 parameters"));
  CHECK(proposes(names({{"gradient_accumulation_fusion", "false"}}), "gradient accumulation fused"));
  CHECK(proposes(names({{"recompute_granularity", "full"}}), "recompute in groups of 2 layers"));
  CHECK(proposes(names({{"recompute_granularity", "full"}, {"recompute_num_layers", "3"}}),
                 "recompute every layer by itself"));
}

TEST_CASE("pairs are simulated together: what they save is not the sum") {
  const auto explanation = explained({}, 6);
  REQUIRE_FALSE(explanation.pairs.empty());
  CHECK(explanation.pairs.size() <= 15);
  std::size_t differs = 0;
  for (const Lever& pair : explanation.pairs) {
    CHECK(pair.changes == 2);
    const std::size_t comma = pair.name.find(", ");
    REQUIRE(comma != std::string::npos);
    const Lever* a = find(explanation.singles, pair.name.substr(0, comma));
    const Lever* b = find(explanation.singles, pair.name.substr(comma + 2));
    REQUIRE(a != nullptr);
    REQUIRE(b != nullptr);
    differs += pair.saving_bytes != a->saving_bytes + b->saving_bytes ? 1 : 0;
  }
  CHECK(differs > 0);
}

TEST_CASE("the ranking: what fits by time, what does not by saving, what saves nothing last") {
  using search::Verdict;
  const std::int64_t base = 100'000;
  const Lever fast = lever(Verdict::tight, 1'000, 1.0), slow = lever(Verdict::fits, 50'000, 2.0);
  const Lever large = lever(Verdict::oom, 40'000, 0.5), small = lever(Verdict::oom, 100, 0.5);
  const Lever nothing = lever(Verdict::fits, 99, 0.1);  // a thousandth of the base are 100
  const std::vector<Lever> order = {fast, slow, large, small, nothing};
  for (std::size_t i = 0; i < order.size(); ++i)
    for (std::size_t j = 0; j < order.size(); ++j) CHECK(search::ranks_before(order[i], order[j], base) == (i < j));
}

TEST_CASE(
    "advice: only where the base lacks room: with 5 % headroom where that can be had, else the fastest that fits") {
  CHECK(explained({}, 0).advice() == nullptr);
  // 49.4 GiB of 79.6 x 0.6 = 47.8: a little too much.
  const auto tight = explained({{"memory.usable_fraction", "0.6"}}, 0);
  REQUIRE(tight.base.fit.verdict == search::Verdict::oom);
  REQUIRE(tight.advice() != nullptr);
  CHECK(tight.advice()->verdict == search::Verdict::fits);
  for (const Lever& single : tight.singles)
    if (single.verdict == search::Verdict::fits) CHECK(tight.advice()->step_s <= single.step_s);
  CHECK(explained({{"memory.usable_fraction", "0.01"}}, 0).advice() == nullptr);
}

TEST_CASE("changes apply to the scenario as it is: modules are added, what is set or cannot be is left out") {
  const auto base = test::scenario_file("quickstart.yaml");
  const auto changes = search::single_changes(*base);
  CHECK(find(changes, "recompute mla_up_proj") != nullptr);  // the model has MLA, a dense layer and shared experts
  CHECK(find(changes, "recompute mlp") != nullptr);
  CHECK(find(changes, "recompute shared_experts") != nullptr);
  CHECK(find(changes, "MBS halved") == nullptr);
  CHECK(find(changes, "sharding zero2") != nullptr);
  CHECK(find(changes, "fused cross-entropy") == nullptr);
  CHECK(find(changes, "dispatcher alltoall") == nullptr);

  const auto other = test::scenario_file("quickstart.yaml", {{"recompute_granularity", "selective"},
                                                             {"recompute_modules", "[core_attn]"},
                                                             {"offload_modules", "[moe_act]"},
                                                             {"mbs", "2"},
                                                             {"sharding", "fsdp2"},
                                                             {"expandable_segments", "true"}});
  const auto more = search::single_changes(*other);
  CHECK(find(more, "recompute core_attn") == nullptr);
  CHECK(find(more, "offload moe_act + expert_fc1") == nullptr);
  CHECK(find(more, "expandable segments") == nullptr);
  CHECK(find(more, "MBS halved") != nullptr);
  for (const Change& change : more) CHECK_FALSE(change.name.starts_with("sharding"));
  REQUIRE(find(more, "recompute moe_act") != nullptr);
  CHECK(search::overrides_of(*find(more, "recompute moe_act"), *other) ==
        std::vector<std::pair<std::string, std::string>>{{"memory.recompute_granularity", "selective"},
                                                         {"memory.recompute_modules", "[core_attn, moe_act]"}});
  REQUIRE(find(more, "offload expert_fc1") != nullptr);
  CHECK(search::overrides_of(*find(more, "offload expert_fc1"), *other).front().second == "[expert_fc1, moe_act]");
}

TEST_CASE("two changes combine unless they give one key two values, are alternatives, or one holds the other") {
  const auto base = test::scenario_file("quickstart.yaml");
  const auto changes = search::single_changes(*base);
  const auto pair = [&](const char* a, const char* b) {
    REQUIRE(find(changes, a) != nullptr);
    REQUIRE(find(changes, b) != nullptr);
    return search::combined(*find(changes, a), *find(changes, b));
  };
  CHECK_FALSE(pair("recompute full", "recompute moe_act"));
  CHECK_FALSE(pair("memfine 2 chunks", "memfine 4 chunks"));
  CHECK_FALSE(pair("dispatcher deepep", "dispatcher hybridep"));
  CHECK_FALSE(pair("offload moe_act", "offload moe_act + expert_fc1"));
  const auto both = pair("recompute moe_act", "recompute layernorm");
  REQUIRE(both);
  CHECK(both->name == "recompute moe_act, recompute layernorm");
  CHECK(search::overrides_of(*both, *base).back().second == "[layernorm, moe_act]");
}

TEST_CASE("keys are spelled as the file spells them, else by Megatron's name") {
  const auto base = test::scenario_file("quickstart.yaml");
  const auto changes = search::single_changes(*base);
  const auto text = [&](const char* name, const std::string& yaml) {
    REQUIRE(find(changes, name) != nullptr);
    return search::set_text(*find(changes, name), *base, config::parse_yaml(yaml, "file"));
  };
  CHECK(text("EP doubled", "parallel: { expert_model_parallel_size: 8 }") == "--set expert_model_parallel_size=16");
  CHECK(text("EP doubled", "parallel: { ep: 8 }") == "--set ep=16");
  CHECK(text("TP doubled", "parallel: { ep: 8 }") == "--set tensor_model_parallel_size=2");
  CHECK(text("memfine 4 chunks", "model: x") == "--set memfine.chunks=4");
}
