#include "model/import_hf.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "base/file.h"
#include "config/data.h"
#include "model/parameters.h"
#include "support.h"

using namespace moeplan;
using namespace moeplan::model;
using moeplan::model::test::edit;
using moeplan::model::test::load;

namespace {

const std::vector<std::string> kShipped = {"llama3.1-8b",  "qwen3-8b",    "qwen3-30b-a3b", "qwen1.5-moe-a2.7b",
                                           "mixtral-8x7b", "gpt-oss-20b", "olmoe-1b-7b",   "glm-4.5-air",
                                           "deepseek-v2",  "deepseek-v3", "kimi-k2",       "moonlight-16b-a3b"};

std::string text_of(const std::string& name) {
  return base::read_text(std::string(MOEPLAN_SOURCE_DIR) + "/tests/data/model/config/" + name + ".json");
}

struct Result {
  Architecture arch;
  std::string faults;
  std::vector<std::string> warnings;
};

Result import(const std::string& json) {
  Result result;
  base::Faults faults;
  std::vector<base::Fault> warnings;
  try {
    result.arch = import_hf(config::parse_yaml(json, "config.json"), "m", faults, warnings);
    faults.throw_if_any();
  } catch (const base::Error& error) {
    result.faults = error.what();
  }
  for (const base::Fault& warning : warnings) result.warnings.push_back(base::format_fault(warning));
  return result;
}

// Everything that a model file can say but name, title, source and published figures.
void check_same_shape(const Architecture& a, const Architecture& b) {
  CHECK(a.hidden == b.hidden);
  CHECK(a.vocab == b.vocab);
  CHECK(a.vocab_divisor == b.vocab_divisor);
  CHECK(a.dense_ffn == b.dense_ffn);
  CHECK(a.tied_embeddings == b.tied_embeddings);
  CHECK(a.learned_positions == b.learned_positions);
  CHECK(a.mlp == b.mlp);
  CHECK(a.linear_bias == b.linear_bias);
  CHECK(a.layer_norm_bias == b.layer_norm_bias);
  CHECK(a.attention == b.attention);
  CHECK(a.moe == b.moe);
  CHECK(a.layers == b.layers);
  CHECK(a.windows == b.windows);
  CHECK(a.mtp_layers == b.mtp_layers);
}

Architecture reread(const Architecture& arch) {
  base::Faults faults;
  const Architecture again = read_architecture(config::parse_yaml(model_yaml(arch), "written"), "other", faults);
  faults.throw_if_any();
  return again;
}

// A small dense config.json; tests edit its lines.
const std::string kLlama = R"({
  "architectures": ["LlamaForCausalLM"],
  "hidden_size": 64,
  "vocab_size": 1000,
  "num_hidden_layers": 4,
  "num_attention_heads": 8,
  "intermediate_size": 128,
  "tie_word_embeddings": true
})";

const std::string kQwenMoe = R"({
  "architectures": ["Qwen3MoeForCausalLM"],
  "hidden_size": 64,
  "vocab_size": 1000,
  "num_hidden_layers": 6,
  "num_attention_heads": 8,
  "intermediate_size": 128,
  "num_experts": 8,
  "num_experts_per_tok": 2,
  "moe_intermediate_size": 32
})";

std::string with(const std::string& json, const std::string& field) {
  return json.substr(0, json.rfind("\n}")) + ",\n  " + field + "\n}";
}

}  // namespace

TEST_CASE("a config.json of each family gives the model of the same name") {
  for (const std::string& name : kShipped) {
    CAPTURE(name);
    const Result result = import(text_of(name));
    CHECK(result.faults == "");
    CHECK(result.warnings.empty());
    check_same_shape(result.arch, load(name));
  }
}

TEST_CASE("an imported model names its places and where it comes from") {
  const Result result = import(text_of("deepseek-v3"));
  CHECK(result.arch.id == "m");
  CHECK(result.arch.source == "imported from a config.json of DeepseekV3ForCausalLM");
  CHECK(result.arch.where_experts.key == "n_routed_experts");
  CHECK(result.arch.where_top_k.key == "num_experts_per_tok");
  CHECK(result.arch.where_layers.key == "num_hidden_layers");
  CHECK(result.arch.where_hidden.file == "config.json");
}

TEST_CASE("a written model file reads back equal, for every shipped model") {
  config::Catalogue catalogue("models", {});
  int models = 0;
  for (const std::string& name : catalogue.names()) {
    CAPTURE(name);
    const Architecture arch = load(name);
    const Architecture again = reread(arch);
    check_same_shape(again, arch);
    CHECK(again.id == arch.id);
    CHECK(again.title == arch.title);
    CHECK(again.source == arch.source);
    CHECK(again.published == arch.published);
    CHECK(model_yaml(again) == model_yaml(arch));
    ++models;
  }
  CHECK(models >= 27);
}

TEST_CASE("a written model file keeps what no shipped model has") {
  Architecture arch = test::read(test::kGqaText);
  arch.title = "quotes \" and \\ and\nline: # end";
  arch.mlp = MlpKind::gelu;
  arch.layer_norm_bias = true;
  arch.linear_bias = true;
  arch.attention.qkv_bias = false;
  arch.attention.output_bias = true;
  arch.attention.sinks = true;
  arch.moe.expert_bias = false;
  arch.learned_positions = 1024;
  arch.vocab_divisor = 64;
  arch.mtp_layers = 2;
  arch.windows = {16, 0, 0};  // no period: written layer by layer
  const Architecture again = reread(arch);
  check_same_shape(again, arch);
  CHECK(again.title == arch.title);
  arch.windows = {16, 16, 0};  // every third without
  CHECK(model_yaml(arch).find("window_attn_skip_freq: 3\n") != std::string::npos);
  check_same_shape(reread(arch), arch);
  arch.windows = {16, 16, 16};
  CHECK(model_yaml(arch).find("window_attn_skip_freq") == std::string::npos);
  check_same_shape(reread(arch), arch);
  arch.windows = {0, 16, 16};
  check_same_shape(reread(arch), arch);
}

TEST_CASE("defaults of a family stand in for absent and null fields") {
  const Architecture llama = import(kLlama).arch;
  CHECK(llama.tied_embeddings);
  CHECK(llama.attention.kv_heads == 8);  // as many as heads
  CHECK(llama.attention.head_dim == 8);  // 64 / 8
  CHECK(import(with(kLlama, R"("head_dim": null, "num_key_value_heads": null)")).arch.attention == llama.attention);
  CHECK(import(with(kLlama, R"("head_dim": 32)")).arch.attention.head_dim == 32);
  // Qwen3 takes 128 where nothing is said, not hidden / heads.
  CHECK(import(edit(kLlama, "Llama", "Qwen3")).arch.attention.head_dim == 128);
  CHECK(import(edit(kLlama, "Llama", "Qwen2")).arch.attention.qkv_bias);
  CHECK(import(edit(kLlama, "\"architectures\": [\"LlamaForCausalLM\"]", "\"model_type\": \"llama\"")).arch.hidden ==
        64);
}

TEST_CASE("biases: one switch for attention, another for the MLP") {
  const Architecture both = import(with(kLlama, R"("attention_bias": true, "mlp_bias": true)")).arch;
  CHECK(both.attention.qkv_bias);
  CHECK(both.attention.output_bias);
  CHECK(both.linear_bias);
  const Architecture attention = import(with(kLlama, R"("attention_bias": true)")).arch;
  CHECK(attention.attention.output_bias);
  CHECK_FALSE(attention.linear_bias);
  CHECK(import(with(kLlama, R"("mlp_bias": true)")).faults ==
        "config.json:9:15: mlp_bias: biases of the MLP without those of attention cannot be expressed");
}

TEST_CASE("which layers have experts") {
  const auto pattern = [](const std::string& json) {
    std::string text;
    for (const LayerKind kind : import(json).arch.layers) text += kind == LayerKind::moe ? '1' : '0';
    return text;
  };
  CHECK(pattern(kQwenMoe) == "111111");
  CHECK(import(kQwenMoe).arch.dense_ffn == 0);
  // Qwen counts layers from 1: the second, fourth and sixth.
  CHECK(pattern(with(kQwenMoe, R"("decoder_sparse_step": 2)")) == "010101");
  CHECK(pattern(with(kQwenMoe, R"("mlp_only_layers": [0, 5])")) == "011110");
  CHECK(import(with(kQwenMoe, R"("mlp_only_layers": [0])")).arch.dense_ffn == 128);
  // DeepSeek counts from 0, behind the first dense ones: of layers 1 to 59, the even ones.
  const std::string v2 = edit(text_of("deepseek-v2"), "\"moe_layer_freq\": 1", "\"moe_layer_freq\": 2");
  CHECK(pattern(v2).substr(0, 6) == "001010");
  CHECK(pattern(with(edit(text_of("glm-4.5-air"), "\"num_hidden_layers\": 46", "\"num_hidden_layers\": 3"),
                     R"("mlp_layer_types": ["dense", "dense", "sparse"])")) == "001");
}

TEST_CASE("windows: by layer type, from a layer on, everywhere or alternating") {
  const auto windows = [](const std::string& json) { return import(json).arch.windows; };
  using W = std::vector<std::int64_t>;
  const std::string used = R"("use_sliding_window": true, "sliding_window": 32, "max_window_layers": )";
  const std::string qwen = edit(kLlama, "Llama", "Qwen2");
  CHECK(windows(with(qwen, used + "2")) == W{0, 0, 32, 32});
  CHECK(windows(with(qwen, used + "4")) == W{0, 0, 0, 0});
  CHECK(windows(with(qwen, R"("use_sliding_window": false, "sliding_window": 32, "max_window_layers": 0)")) ==
        W{0, 0, 0, 0});
  CHECK(windows(with(edit(kLlama, "Llama", "Mistral"), R"("sliding_window": 32)")) == W{32, 32, 32, 32});
  CHECK(windows(with(edit(kLlama, "Llama", "Mistral"), R"("sliding_window": null)")) == W{0, 0, 0, 0});
  const std::string types = R"("layer_types": ["full_attention", "sliding_attention", "full_attention", )";
  CHECK(windows(with(qwen, types + R"("full_attention"], "sliding_window": 32)")) == W{0, 32, 0, 0});
  CHECK(import(with(qwen, types + R"("linear_attention"], "sliding_window": 32)"))
            .faults.find(
                "layer 3 (counted from 0) is of type 'linear_attention', which is not supported in this version") !=
        std::string::npos);
  CHECK(import(with(qwen, R"("layer_types": ["full_attention"])")).faults.find("expected 4 layers, got 1") !=
        std::string::npos);
}

TEST_CASE("unknown and unsupported architectures are refused by name") {
  CHECK(import(edit(kLlama, "Llama", "Lama")).faults ==
        "config.json:2:20: architectures: unknown architecture 'LamaForCausalLM'\n"
        "  hint: did you mean 'LlamaForCausalLM'?");
  CHECK(import(edit(kLlama, "LlamaForCausalLM", "BertModel")).faults.find("hint: supported: LlamaForCausalLM, ") !=
        std::string::npos);
  CHECK(import(edit(kLlama, "Llama", "Qwen3Next")).faults ==
        "config.json:2:20: architectures: 'Qwen3NextForCausalLM' has linear attention layers, which are not supported "
        "in this version");
  CHECK(import(edit(kLlama, "Llama", "Mamba")).faults.find("state-space (mamba) layers") != std::string::npos);
  CHECK(import(edit(kLlama, "Llama", "DeepseekV32")).faults.find("sparse attention layers") != std::string::npos);
  CHECK(import("{\"hidden_size\": 3}").faults.find("missing key 'architectures'") != std::string::npos);
}

TEST_CASE("fields that change the shape and cannot be expressed are faults, unknown ones warnings, others silent") {
  CHECK(import(with(kLlama, R"("index_topk": 2048)")).faults ==
        "config.json:9:17: index_topk: 'index_topk' means sparse attention layers, which are not supported in this "
        "version");
  CHECK(import(with(kLlama, R"("hidden_act": "gelu")")).faults.find("expected silu") != std::string::npos);
  const Result unknown = import(with(kLlama, R"("extra_heads": 3, "rope_theta": 1e6)"));
  CHECK(unknown.faults == "");
  CHECK(
      unknown.warnings ==
      std::vector<std::string>{"config.json:9:3: extra_heads: unknown field 'extra_heads': ignored; check that it does "
                               "not change the shape"});
}

TEST_CASE("missing and impossible values are faults with places") {
  const auto holds = [](const std::string& json, const std::string& part) {
    const std::string faults = import(json).faults;
    CAPTURE(faults);
    return faults.find(part) != std::string::npos;
  };
  CHECK(import(edit(kLlama, "  \"hidden_size\": 64,\n", "")).faults == "config.json:1:1: missing key 'hidden_size'");
  CHECK(import(edit(kLlama, "\"num_attention_heads\": 8", "\"num_attention_heads\": \"8\""))
            .faults.find("config.json:6:26: num_attention_heads: expected an integer") != std::string::npos);
  CHECK(import(edit(kLlama, "\"hidden_size\": 64", "\"hidden_size\": 60"))
            .faults.find("'head_dim' is not given, and hidden_size (60) is no multiple of 8 heads") !=
        std::string::npos);
  CHECK(import(edit(kLlama, "\"num_hidden_layers\": 4", "\"num_hidden_layers\": 4097")).faults.find("4096 layers") !=
        std::string::npos);
  CHECK(import(edit(kLlama, "\"num_hidden_layers\": 4", "\"num_hidden_layers\": 0")).faults ==
        "config.json:5:24: num_hidden_layers: expected an integer >= 1, got '0'");
  CHECK(holds(with(kQwenMoe, R"("decoder_sparse_step": 0)"), "decoder_sparse_step: expected an integer >= 1, got '0'"));
  CHECK(holds(edit(text_of("deepseek-v2"), "\"moe_layer_freq\": 1", "\"moe_layer_freq\": 0"),
              "moe_layer_freq: expected an integer >= 1, got '0'"));
  // Six layers, counted from 0.
  CHECK(holds(with(kQwenMoe, R"("mlp_only_layers": [5, 6])"),
              "mlp_only_layers: expected layers from 0 to 5 (num_hidden_layers 6), got '6'"));
  // Rules of model files: 8 experts, 9 a token.
  CHECK(import(edit(kQwenMoe, "\"num_experts_per_tok\": 2", "\"num_experts_per_tok\": 9")).faults ==
        "config.json:1:1: as a model file, moe.moe_router_topk: expected at most num_experts (8), got '9'");
  CHECK(import(edit(text_of("deepseek-v3"), "\"n_group\": 8", "\"n_group\": 7")).faults.find("divisor") !=
        std::string::npos);
  // Products of two fields stay far from overflow.
  CHECK(import(edit(text_of("deepseek-v3"), "\"n_shared_experts\": 1", "\"n_shared_experts\": 99999999999")).faults !=
        "");
}

TEST_CASE("JSON as people have it: compact, with tabs, escapes, long numbers and nested null") {
  std::string compact;
  for (const char c : kLlama) {
    if (c != ' ' && c != '\n') compact += c;
  }
  CHECK(import(compact).faults == "");
  std::string tabs;
  for (const char c : kLlama) tabs += c == ' ' ? std::string("\t") : std::string(1, c);
  CHECK(import(tabs).faults == "");
  CHECK(import(with(kLlama, R"("_name_or_path": "a\/b \u00e9 \"c\"", "rope_scaling": {"a": null, "b": [1e-06, [], {}]},
  "task_specific_params": null, "bos_token_id": 123456789012345678901234567890)"))
            .faults == "");
}

TEST_CASE("a config.json is told from a model file, and stands for one") {
  CHECK(looks_like_hf_config(config::parse_yaml(kLlama, "c")));
  CHECK_FALSE(looks_like_hf_config(config::parse_yaml(test::kGqaText, "m")));
  CHECK_FALSE(looks_like_hf_config(config::parse_yaml("hidden_size: 3\n", "m")));
  base::Faults faults;
  std::vector<base::Fault> warnings;
  const ModelFile plain = model_file(config::parse_yaml(test::kGqaText, "m"), "m", faults, warnings);
  CHECK_FALSE(plain.imported);
  CHECK(plain.root.has("moe"));
  const ModelFile imported = model_file(config::parse_yaml(text_of("gpt-oss-20b"), "c.json"), "g", faults, warnings);
  CHECK(imported.imported);
  CHECK(imported.root.at("attention").at("window_size").scalar() == "128");
  CHECK(imported.where_experts.file == "c.json");
  CHECK(faults.empty());
}

TEST_CASE("a model is named after its file, or the folder of a config.json") {
  CHECK(model_name_of("a/b/my-model.json") == "my-model");
  CHECK(model_name_of("a/Qwen3-8B/config.json") == "Qwen3-8B");
  CHECK(model_name_of("x.yaml") == "x");
}
