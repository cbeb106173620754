#include <doctest/doctest.h>

#include <set>

#include "scenario/keys.h"
#include "support.h"

using namespace moeplan;
using namespace moeplan::scenario;
using namespace moeplan::scenario::testing;

TEST_CASE("a key is found under every name that people type") {
  const std::string ep = "parallel.expert_model_parallel_size";
  for (const char* name : {"EP", "ep", "expert_model_parallel_size", "expert-model-parallel-size",
                           "--expert-model-parallel-size", "parallel.ep", "parallel.expert_model_parallel_size"}) {
    CAPTURE(name);
    CHECK(scenario_path(name, "--vary") == ep);
  }
  CHECK(scenario_path("TP", "") == "parallel.tensor_model_parallel_size");
  CHECK(scenario_path("PP", "") == "parallel.pipeline_model_parallel_size");
  CHECK(scenario_path("VPP", "") == "parallel.virtual_pipeline_model_parallel_size");
  CHECK(scenario_path("CP", "") == "parallel.context_parallel_size");
  CHECK(scenario_path("ETP", "") == "parallel.expert_tensor_parallel_size");
  CHECK(scenario_path("MBS", "") == "training.micro_batch_size");
  CHECK(scenario_path("GBS", "") == "training.global_batch_size");
  CHECK(scenario_path("SEQ", "") == "training.seq_length");
  CHECK(scenario_path("memfine.chunks", "") == "moe.policies.memfine.chunks");
  CHECK(scenario_path("moe-token-dispatcher-type", "") == "moe.dispatcher");
  CHECK(scenario_path("gpus", "") == "cluster.gpus");
}

TEST_CASE("keys of the model file and the profile stay as they are") {
  CHECK(scenario_path("model.vocab_size", "") == "model.vocab_size");
  CHECK(scenario_path("hardware.host.launch", "") == "hardware.host.launch");
  CHECK(scenario_path("model", "") == "model");
  CHECK(scenario_path("hardware", "") == "cluster.hardware");
}

TEST_CASE("unknown and ambiguous keys are refused with what could be meant") {
  const auto message = [](const std::string& key) {
    try {
      return scenario_path(key, "--vary " + key);
    } catch (const base::Error& error) {
      return std::string(error.what());
    }
  };
  CHECK(message("epp") == "--vary epp: unknown key 'epp'\n  hint: did you mean 'pp'?");
  CHECK(holds(message("seq_lenght"), "did you mean 'seq_length'?"));
  CHECK(holds(message("memfine.chunk"), "did you mean 'memfine.chunks'?"));
  CHECK(holds(message("parallel.chunks"), "unknown key"));
  CHECK(holds(message("seed"), "can be any of moe.policies.lrmoe.seed, routing.seed, routing.lognormal.seed"));
  CHECK(holds(message(""), "expected a key, got nothing"));
  CHECK(scenario_path("routing.seed", "") == "routing.seed");  // exact, although lognormal.seed ends alike
}

TEST_CASE("every key of the table is listed once and found under each of its names") {
  std::set<std::string> paths;
  for (const auto& [path, names] : scenario_keys()) {
    CHECK(paths.insert(path).second);
    CHECK(scenario_path(path, "") == path);
  }
  for (const Key& key : key_table()) {
    for (const std::string_view name : key.short_names) {
      if (!name.empty()) CHECK(scenario_path(std::string(name), "") == key.path);
    }
  }
}

TEST_CASE("an option is split at its first equals sign") {
  using Parts = std::pair<std::string, std::string>;
  CHECK(split_override("a.b=c", "--set") == Parts("a.b", "c"));
  CHECK(split_override("a=b=c", "--set") == Parts("a", "b=c"));
  CHECK(split_override("a=", "--set") == Parts("a", ""));
  CHECK_THROWS_WITH_AS(split_override("ep", "--set"), "--set ep: expected KEY=VALUE, got 'ep'", base::Error);
  CHECK_THROWS_AS(split_override("=1", "--set"), base::Error);
}

TEST_CASE("a value replaces that of the file under whatever name the file uses") {
  // The file writes `ep`, and `tensor_model_parallel_size` in full.
  CHECK(resolve(kSmall, {{"EP", "2"}}).layout.ep == 2);
  CHECK(resolve(kSmall, {{"expert-model-parallel-size", "2"}}).layout.ep == 2);
  CHECK(resolve(kSmall, {{"TP", "2"}}).layout.tp == 2);
  CHECK(resolve(kSmall, {{"training.seq_length", "64"}}).training.seq_length == 64);
}

TEST_CASE("values apply in order, and the last one stands") {
  CHECK(resolve(kSmall, {{"EP", "8"}, {"ep", "2"}}).layout.ep == 2);
  CHECK(resolve(kSmall, {{"parallel", "{ ep: 2 }"}, {"ep", "8"}}).layout.ep == 8);
}

TEST_CASE("a section that the file lacks is made") {
  CHECK_FALSE(resolve(kSmall, {{"sharding", "ddp"}}).optimizer.shards_states());
}

TEST_CASE("values of options are YAML, and their faults name the option") {
  CHECK(holds(refusal(kSmall, {{"ep", "two"}}), "--set ep=two: parallel.ep: expected an integer"));
  CHECK(holds(refusal(kSmall, {{"ep", "[1"}}), "--set ep=[1"));
  CHECK(holds(refusal(kSmall, {{"model.layers.count", "3"}}), "--set model.layers.count=3"));
  // Both options are named, not the first alone.
  const std::string both = refusal(kSmall, {{"nonsense_key", "1"}, {"memfine.alphas", "1"}});
  CHECK(holds(both, "unknown key 'nonsense_key'"));
  CHECK(holds(both, "unknown key 'memfine.alphas'"));
}

TEST_CASE("values of the model file and the profile can be replaced") {
  CHECK(resolve(kSmall, {{"model.moe.num_experts", "16"}}).model.moe.experts == 16);
  CHECK(holds(refusal(kSmall, {{"model.moe.num_expert", "16"}}), "did you mean 'num_experts'?"));
  const Scenario s = resolve(kSmall, {{"hardware.device.memory_capacity", "40 GiB"}});
  CHECK(s.capacity_bytes() == 42949672960);
  CHECK(s.hardware.device.memory_capacity.evidence == topology::Evidence::assumed);
  CHECK(s.hardware.device.memory_capacity.source == "--set hardware.device.memory_capacity=40 GiB");
  CHECK(holds(refusal(kSmall, {{"hardware.device.memory_capacity", "40"}}), "such as '80 GiB'"));
}

TEST_CASE("a value that the profile leaves out can be set, one that no profile has cannot") {
  const Scenario plain = resolve(kSmall);
  REQUIRE_FALSE(plain.hardware.network.health);
  const Scenario s = resolve(kSmall, {{"hardware.network.health", "0.9"}});
  CHECK(s.hardware.network.health->value == 0.9);
  CHECK(s.hardware.network.health->evidence == topology::Evidence::assumed);
  CHECK(s.hardware.network.health->source == "--set hardware.network.health=0.9");
  CHECK(holds(refusal(kSmall, {{"hardware.network.health", "0.4"}}), "health"));
  CHECK(holds(refusal(kSmall, {{"hardware.network.healt", "2"}}), "did you mean 'health'?"));
}

TEST_CASE("a count of chunks turns the fixed rule on, and bins the adaptive one") {
  using Rule = policy::MemfineSettings::Rule;
  const std::string adaptive = small_with("{ rule: fixed, chunks: 4 }", "{ rule: adaptive }");
  const Scenario fixed = resolve(adaptive, {{"memfine.chunks", "2"}});
  CHECK(fixed.policies.memfine->rule == Rule::fixed);
  CHECK(fixed.policies.memfine->chunks == 2);
  CHECK(resolve(kSmall, {{"memfine.bins", "[1, 2]"}}).policies.memfine->rule == Rule::adaptive);
  CHECK(resolve(adaptive, {{"memfine.chunks", "2"}, {"memfine.rule", "adaptive"}}).policies.memfine->rule ==
        Rule::adaptive);
  const std::string without = small_with(", policies: { memfine: { rule: fixed, chunks: 4 } }", "");
  CHECK(resolve(without, {{"memfine.chunks", "2"}}).policies.memfine->chunks == 2);
  CHECK_FALSE(resolve(kSmall, {{"policies", "{}"}}).policies.memfine);
}
