#include <doctest/doctest.h>

#include "cli/support.h"
#include "model/architecture.h"

namespace moeplan::cli {
using namespace testing;

namespace {

const std::string kConfigs = kRoot + "/tests/data/model/config/";

// A small MoE model, eight experts.
const std::string kConfig = R"({
  "architectures": ["MixtralForCausalLM"],
  "hidden_size": 64, "vocab_size": 1000, "num_hidden_layers": 4, "num_attention_heads": 4,
  "num_key_value_heads": 2, "intermediate_size": 32, "num_local_experts": 8, "num_experts_per_tok": 2
})";

}  // namespace

TEST_CASE("import hf prints a model file that reads back, named after the input or --name") {
  const Result result = moeplan({"import", "hf", kConfigs + "qwen3-30b-a3b.json"});
  CHECK(result.status == 0);
  CHECK(result.err.empty());
  CHECK(result.out.starts_with("name: \"qwen3-30b-a3b\"\n"));
  base::Faults faults;
  const model::Architecture arch = model::read_architecture(config::parse_yaml(result.out, "out"), "x", faults);
  CHECK(faults.empty());
  CHECK(arch.moe.experts == 128);
  CHECK(
      moeplan({"import", "hf", kConfigs + "qwen3-30b-a3b.json", "--name", "mine"}).out.starts_with("name: \"mine\"\n"));
}

TEST_CASE("import hf writes to the file of -o, and never over its input") {
  const Folder folder;
  const std::string config = folder.write("config.json", kConfig);
  const Result result = moeplan({"import", "hf", config, "-o", folder.at("m.yaml"), "--name", "m"});
  CHECK(result.status == 0);
  CHECK(result.out.empty());
  CHECK(content_of(folder.at("m.yaml")).starts_with("name: \"m\"\n"));
  const Result over = moeplan({"import", "hf", config, "-o", config});
  CHECK(over.status == 2);
  CHECK(holds(over.err, "would replace the input"));
  CHECK(content_of(config) == kConfig);
}

TEST_CASE("import hf warns of unknown fields and refuses unknown architectures") {
  const Folder folder;
  const std::string odd =
      folder.write("odd.json", replaced(kConfig, "\"hidden_size\"", "\"strange\": 1, \"hidden_size\""));
  const Result warned = moeplan({"import", "hf", odd});
  CHECK(warned.status == 0);
  CHECK(holds(warned.err, "warning: " + odd + ":3:3: strange: unknown field 'strange'"));
  CHECK(warned.out.starts_with("name: "));
  const Result refused = moeplan({"import", "hf", folder.write("f.json", replaced(kConfig, "Mixtral", "Mamba"))});
  CHECK(refused.status == 2);
  CHECK(holds(refused.err, "state-space (mamba) layers, which are not supported in this version"));
  CHECK(refused.out.empty());
  CHECK(moeplan({"import", "hf", folder.at("missing.json")}).status == 2);
  CHECK(holds(moeplan({"import", "hg"}).err, "did you mean 'hf'?"));
  CHECK(moeplan({"import"}).status == 2);
  CHECK(moeplan({"import", "hf"}).status == 2);
}

TEST_CASE("a scenario takes a config.json as its model, with overrides of a model file's keys") {
  const Folder folder;
  folder.write("config.json", kConfig);
  const std::string scenario = folder.write("s.yaml", replaced(kSmall, "tiny-moe", "config.json"));
  const Result result = moeplan({"run", scenario});
  CHECK(result.err == "");
  CHECK(result.status == 0);
  // Equal to a run of the model file that import writes, but for the name of the scenario.
  moeplan({"import", "hf", folder.at("config.json"), "-o", folder.at("config.yaml")});
  const std::string written = folder.write("t.yaml", replaced(kSmall, "tiny-moe", "config.yaml"));
  const auto json_of = [&](const std::string& path, const std::vector<std::string>& more) {
    std::vector<std::string> words = {"run", path, "--json", "-"};
    words.insert(words.end(), more.begin(), more.end());
    return moeplan(words).out;
  };
  const std::string plain = json_of(scenario, {});
  CHECK(holds(plain, "\"verdict\""));
  CHECK(replaced(plain, "s.yaml", "t.yaml") == json_of(written, {}));
  const std::vector<std::string> wider = {"--set", "model.moe.moe_ffn_hidden_size=64"};
  const std::string wide = json_of(scenario, wider);
  CHECK(holds(wide, "\"verdict\""));
  CHECK(wide != plain);
  CHECK(replaced(wide, "s.yaml", "t.yaml") == json_of(written, wider));
  // A fault that both files make names the place in the config.json: 8 experts over 3 ranks.
  const Result uneven = moeplan({"run", scenario, "--set", "gpus=6", "--set", "ep=3", "--set", "gbs=6"});
  CHECK(uneven.status == 2);
  CHECK(holds(uneven.err, "config.json:4:"));
}

TEST_CASE("a scenario whose config.json has unknown fields says so in its warnings") {
  const Folder folder;
  folder.write("config.json", replaced(kConfig, "\"hidden_size\"", "\"strange\": 1, \"hidden_size\""));
  const std::string scenario = folder.write("s.yaml", replaced(kSmall, "tiny-moe", "config.json"));
  CHECK(holds(moeplan({"run", scenario, "--json", "-"}).out, "unknown field 'strange'"));
}

TEST_CASE("what a model file expresses changes the run: MTP blocks, GELU, positions, padding") {
  const Folder folder;
  folder.write("config.json", kConfig);
  const std::string scenario = folder.write("s.yaml", replaced(kSmall, "tiny-moe", "config.json"));
  const auto out = [&](const std::string& set) {
    const auto result = moeplan({"run", scenario, "--json", "-", "--set", set});
    CHECK(result.status == 0);
    return result.out;
  };
  const std::string plain = out("model.mtp_num_layers=0");
  for (const char* set : {"model.mtp_num_layers=1", "model.mlp=gelu", "model.learned_positions=128",
                          "model.make_vocab_size_divisible_by=2048"}) {
    CAPTURE(set);
    CHECK(out(set) != plain);
  }
}

}  // namespace moeplan::cli
