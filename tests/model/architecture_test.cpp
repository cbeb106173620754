#include "model/architecture.h"

#include <doctest/doctest.h>

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include "support.h"

using namespace moeplan::model;
using moeplan::model::test::edit;
using moeplan::model::test::faults_of;
using moeplan::model::test::kGqaText;
using moeplan::model::test::kMlaText;
using moeplan::model::test::load;
using moeplan::model::test::read;

TEST_CASE("every file under models/ reads without a fault and is named as its file") {
  int files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(std::string(MOEPLAN_SOURCE_DIR) + "/models")) {
    if (entry.path().extension() != ".yaml") continue;
    const std::string name = entry.path().stem().string();
    CAPTURE(name);
    const Architecture arch = load(name);
    CHECK(arch.id == name);
    CHECK(!arch.source.empty());
    ++files;
  }
  CHECK(files >= 27);
}

TEST_CASE("a model file's values arrive where they belong") {
  const Architecture v2 = load("deepseek-v2-lite");
  CHECK(v2.title == "DeepSeek-V2-Lite");
  CHECK(v2.hidden == 2048);
  CHECK(v2.vocab == 102'400);
  CHECK(v2.dense_ffn == 10'944);
  CHECK_FALSE(v2.tied_embeddings);
  CHECK(v2.attention.kind == AttentionKind::mla);
  CHECK(v2.attention.heads == 16);
  CHECK(v2.attention.kv_heads == 16);
  CHECK(v2.attention.q_lora_rank == 0);
  CHECK(v2.attention.kv_lora_rank == 512);
  CHECK(v2.attention.qk_dim() == 192);
  CHECK(v2.attention.v_dim() == 128);
  CHECK(v2.moe.experts == 64);
  CHECK(v2.moe.top_k == 6);
  CHECK(v2.moe.ffn == 1408);
  CHECK(v2.moe.shared_ffn == 2816);
  CHECK_FALSE(v2.moe.correction_bias);
  CHECK(v2.layer_count() == 27);
  CHECK(v2.moe_layer_count() == 26);
  CHECK(v2.layers[0] == LayerKind::dense);
  CHECK(v2.moe_layer_ids().front() == 1);
  CHECK(v2.where_experts.key == "moe.num_experts");
  CHECK(v2.where_top_k.key == "moe.moe_router_topk");
  CHECK(v2.where_layers.key == "layers");
  CHECK(v2.where_hidden.key == "hidden_size");

  const Architecture qwen = load("qwen3-30b-a3b");
  CHECK(qwen.attention.kind == AttentionKind::gqa);
  CHECK(qwen.attention.kv_heads == 4);
  CHECK(qwen.attention.head_dim == 128);
  CHECK(qwen.attention.qk_norm);
  CHECK_FALSE(qwen.attention.qkv_bias);
  CHECK(qwen.dense_ffn == 0);
  CHECK(qwen.moe_layer_count() == 48);
  CHECK(load("deepseek-v3-no-mtp").moe.correction_bias);
}

TEST_CASE("name, title, key-value heads, flags and moe are optional and short names are accepted") {
  const Architecture arch = read(
      "source: hand\nhidden: 8\nvocab: 10\ndense_ffn: 16\nnum_layers: 3\n"
      "attention: { kind: gqa, heads: 4, head_dim: 2, qk_norm: true }\n");
  CHECK(arch.id == "m");
  CHECK(arch.title == "m");
  CHECK(arch.attention.kv_heads == 4);
  CHECK(arch.attention.qk_norm);
  CHECK(arch.moe.experts == 0);
  CHECK(arch.moe_layer_count() == 0);
  CHECK(arch.layer_count() == 3);
  CHECK(arch.published.total_parameters == 0);
}

TEST_CASE("all faults of a file come at once, each with its place") {
  const std::string text =
      "hidden_size: 0\n"
      "vocab_size: ten\n"
      "vocab_sise: 10\n"
      "ffn_hidden_size: 16\n"
      "attention: { kind: gqb }\n"
      "moe:\n"
      "  num_experts: 4\n"
      "  moe_router_topk: 5\n"
      "  moe_ffn_hidden_sizes: 3\n"
      "layers:\n"
      "  - { kind: mor, count: 1 }\n";
  CHECK(faults_of(text) == R"(m.yaml:1:1: missing key 'source'
m.yaml:1:14: hidden_size: expected an integer from 1 to 262144, got '0'
m.yaml:2:13: vocab_size: expected an integer from 1 to 16777216, got 'ten'
m.yaml:3:1: vocab_sise: unknown key 'vocab_sise'
  hint: did you mean 'vocab_size'?
m.yaml:5:20: attention.kind: expected one of gqa, mla, got 'gqb'
  hint: did you mean 'gqa'?
m.yaml:7:3: moe: missing key 'moe_ffn_hidden_size'
m.yaml:8:20: moe.moe_router_topk: expected at most num_experts (4), got '5'
m.yaml:9:3: moe.moe_ffn_hidden_sizes: unknown key 'moe_ffn_hidden_sizes'
  hint: did you mean 'moe_ffn_hidden_size'?
m.yaml:11:13: layers[0].kind: expected one of dense, moe, got 'mor'
  hint: did you mean 'moe'?)");
}

TEST_CASE("ranges hold on both sides") {
  CHECK(faults_of(kGqaText) == "");
  CHECK(faults_of(edit(kGqaText, "moe_router_topk: 2", "moe_router_topk: 5")) == "");
  CHECK(faults_of(edit(kGqaText, "moe_router_topk: 2", "moe_router_topk: 6")) ==
        "m.yaml:12:20: moe.moe_router_topk: expected at most num_experts (5), got '6'");
  CHECK(faults_of(edit(kGqaText, "vocab_size: 10", "vocab_size: 16777216")) == "");
  CHECK(faults_of(edit(kGqaText, "vocab_size: 10", "vocab_size: 16777217")) ==
        "m.yaml:3:13: vocab_size: expected an integer from 1 to 16777216, got '16777217'");
  CHECK(faults_of(edit(kGqaText, "hidden_size: 8\nvocab", "hidden_size: 1\nvocab")) == "");
  CHECK(faults_of(edit(kGqaText, "hidden_size: 8\nvocab", "hidden_size: 0\nvocab")) ==
        "m.yaml:2:14: hidden_size: expected an integer from 1 to 262144, got '0'");
  CHECK(faults_of(edit(kGqaText, "num_query_groups: 2", "num_query_groups: 4")) == "");
  CHECK(faults_of(edit(kGqaText, "num_query_groups: 2", "num_query_groups: 3")) ==
        "m.yaml:8:21: attention.num_query_groups: expected a divisor of num_attention_heads (4), got '3'");
}

TEST_CASE("attention that is missing is one fault") {
  CHECK(faults_of("name: m\nsource: made up\nhidden_size: 64\nvocab_size: 128\nffn_hidden_size: 128\n"
                  "layers: [{ kind: dense, count: 2 }]\n") == "m.yaml:1:1: missing key 'attention'");
}

TEST_CASE("rotary dimensions are even") {
  CHECK(faults_of(edit(kGqaText, "kv_channels: 6", "kv_channels: 7")) ==
        "m.yaml:9:16: attention.kv_channels: expected an even number (rotary pairs), got '7'");
  CHECK(faults_of(kMlaText) == "");
  CHECK(faults_of(edit(kMlaText, "qk_pos_emb_head_dim: 2", "qk_pos_emb_head_dim: 3")) ==
        "m.yaml:10:24: attention.qk_pos_emb_head_dim: expected an even number (rotary pairs), got '3'");
  CHECK(faults_of(edit(kMlaText, "qk_head_dim: 6", "qk_head_dim: 5")) == "");  // no rotary part in it
}

TEST_CASE("keys of the other kind of attention are refused") {
  CHECK(faults_of(edit(kGqaText, "  kv_channels: 6\n", "  kv_channels: 6\n  kv_lora_rank: 4\n")) ==
        "m.yaml:10:17: attention.kv_lora_rank: 'kv_lora_rank' is a key of 'kind: mla' only");
  CHECK(faults_of(edit(kMlaText, "  v_head_dim: 7\n", "  v_head_dim: 7\n  qk_norm: true\n")) ==
        "m.yaml:12:12: attention.qk_norm: 'qk_layernorm' is a key of 'kind: gqa' only");
}

TEST_CASE("moe and ffn_hidden_size are needed exactly where layers use them") {
  const std::string no_moe =
      edit(kGqaText, "moe:\n  num_experts: 5\n  moe_router_topk: 2\n  moe_ffn_hidden_size: 3\n", "");
  CHECK(faults_of(no_moe) == "m.yaml:1:1: missing key 'moe': layer 1 (counted from 0) is an MoE layer");
  CHECK(faults_of(edit(no_moe, "  - { kind: moe, count: 2 }\n", "")) == "");
  CHECK(faults_of(edit(kGqaText, "  - { kind: moe, count: 2 }\n", "")) ==
        "m.yaml:11:3: moe: 'moe' is given, but no layer is an MoE layer");
  const std::string no_ffn = edit(kGqaText, "ffn_hidden_size: 16\n", "");
  CHECK(faults_of(no_ffn) == "m.yaml:1:1: missing key 'ffn_hidden_size': layer 0 (counted from 0) is a dense layer");
  CHECK(faults_of(edit(no_ffn, "  - { kind: dense, count: 1 }\n", "")) == "");
  CHECK(faults_of(edit(kGqaText, "  - { kind: dense, count: 1 }\n", "")) ==
        "m.yaml:4:18: ffn_hidden_size: 'ffn_hidden_size' is given, but no layer is a dense layer\n"
        "  hint: the width of one expert is moe.moe_ffn_hidden_size");
}

TEST_CASE("a gate needs a shared expert") {
  CHECK(faults_of(edit(kMlaText, "  moe_shared_expert_intermediate_size: 4\n", "")) ==
        "m.yaml:16:27: moe.moe_shared_expert_gate: a gate of the shared expert needs "
        "moe_shared_expert_intermediate_size of 1 or more");
  CHECK(faults_of(
            edit(edit(kMlaText, "  moe_shared_expert_intermediate_size: 4\n", ""), "gate: true", "gate: false")) == "");
}

TEST_CASE("published figures need a source, and a convention exactly with active parameters") {
  const std::string base = kGqaText;
  CHECK(faults_of(base + "published: { total_parameters: 3e9, source: card }\n") == "");
  CHECK(faults_of(base + "published: { active_parameters: 3e9, active_convention: everything, source: card }\n") == "");
  CHECK(faults_of(base + "published: { active_parameters: 3e9 }\n") ==
        "m.yaml:17:12: published: missing key 'active_convention'\n"
        "m.yaml:17:12: published: missing key 'source'");
  CHECK(faults_of(base + "published: { active_convention: everything, source: card }\n") ==
        "m.yaml:17:33: published.active_convention: a convention without active_parameters says nothing");
  CHECK(faults_of(base + "published: { active_parameters: 3e9, active_convention: all, source: card }\n") ==
        "m.yaml:17:57: published.active_convention: expected one of everything, without_embedding, "
        "without_embedding_and_head, got "
        "'all'");
}

TEST_CASE("a model whose layers exceed 1e15 parameters is refused before anything overflows") {
  // 4096 layers of 65,536 experts of 3 x 2^18 x 2^20 elements: 5.4e16 a layer, 2.21e20 together, beyond 2^63.
  std::string text = edit(kGqaText, "hidden_size: 8\nvocab", "hidden_size: 262144\nvocab");
  text = edit(text, "num_experts: 5", "num_experts: 65536");
  text = edit(text, "moe_ffn_hidden_size: 3", "moe_ffn_hidden_size: 1048576");
  text = edit(text, "kind: moe, count: 2", "kind: moe, count: 4095");
  CHECK(faults_of(text) ==
        "m.yaml:2:14: hidden_size: expected a model of at most 1e+15 parameters, its layers have 2.21e+20");
}

TEST_CASE("a document that is no model file is a fault, not a crash") {
  CHECK(faults_of("a: 1\n").find("missing key 'attention'") != std::string::npos);
  CHECK(faults_of("attention: 3\nmoe: []\nlayers: x\npublished: null\n").find("m.yaml:1:12") != std::string::npos);
}

TEST_CASE("MTP, windows, biases, sinks, groups and padding arrive where they belong") {
  const Architecture oss = load("gpt-oss-20b");
  CHECK(oss.linear_bias);
  CHECK(oss.attention.qkv_bias);  // implied by add_bias_linear
  CHECK(oss.attention.output_bias);
  CHECK(oss.moe.expert_bias);
  CHECK(oss.attention.sinks);
  CHECK(oss.has_windows());
  CHECK(oss.window(0) == 128);
  CHECK(oss.window(1) == 0);
  CHECK(oss.windows.size() == 24);
  CHECK(oss.vocab_divisor == 128);
  CHECK(oss.mlp == MlpKind::swiglu);
  const Architecture v3 = load("deepseek-v3");
  CHECK(v3.mtp_layers == 1);
  CHECK(v3.mtp_kind() == LayerKind::moe);
  CHECK(v3.moe.groups == 8);
  CHECK(v3.moe.groups_limit == 4);
  CHECK_FALSE(v3.has_windows());
  CHECK(v3.windows == std::vector<std::int64_t>(61, 0));
  CHECK(load("olmoe-1b-7b").attention.qk_norm_all_heads);
}

TEST_CASE("short names of the newer keys are accepted") {
  const Architecture arch = read(edit(std::string(kGqaText) + "mtp_layers: 1\nvocab_divisor: 64\nlinear_bias: true\n",
                                      "  num_experts: 5\n", "  num_experts: 6\n  groups: 3\n  groups_limit: 2\n"));
  CHECK(arch.mtp_layers == 1);
  CHECK(arch.vocab_divisor == 64);
  CHECK(arch.linear_bias);
  CHECK(arch.moe.groups == 3);
  CHECK(arch.moe.groups_limit == 2);
}

TEST_CASE("windows: all layers, every N-th without, a list or a pattern") {
  const auto windows = [](const std::string& keys) {
    return read(edit(kGqaText, "  kv_channels: 6\n", "  kv_channels: 6\n" + keys)).windows;
  };
  using W = std::vector<std::int64_t>;
  CHECK(windows("") == W{0, 0, 0});
  CHECK(windows("  window_size: 16\n") == W{16, 16, 16});
  // Megatron counts layers from 1: every second, or third, has none; with 1 none has.
  CHECK(windows("  window_size: 16\n  window_attn_skip_freq: 2\n") == W{16, 0, 16});
  CHECK(windows("  window_size: 16\n  window_pattern: 3\n") == W{16, 16, 0});
  CHECK(windows("  window_size: 16\n  window_attn_skip_freq: 1\n") == W{0, 0, 0});
  CHECK(windows("  window_size: 16\n  window_attn_skip_freq: [0, 1, 0]\n") == W{0, 16, 0});
  CHECK(windows("  window_size: 16\n  window_attn_skip_freq: ([1]*2+[0])\n") == W{16, 16, 0});
}

TEST_CASE("newer keys that contradict each other are refused") {
  const auto attention = [](const std::string& keys) {
    return faults_of(edit(kGqaText, "  kv_channels: 6\n", "  kv_channels: 6\n" + keys));
  };
  const auto moe = [](const std::string& keys) {
    return faults_of(edit(kGqaText, "  num_experts: 5\n", "  num_experts: 6\n" + keys));
  };
  CHECK(attention("  window_attn_skip_freq: 2\n") ==
        "m.yaml:10:26: attention.window_attn_skip_freq: 'window_attn_skip_freq' needs 'window_size'");
  CHECK(attention("  window_size: 0\n") ==
        "m.yaml:10:16: attention.window_size: expected an integer from 1 to 1073741824, got '0'");
  CHECK(attention("  window_size: 16\n  window_attn_skip_freq: [1, 0]\n") ==
        "m.yaml:11:26: attention.window_attn_skip_freq: expected 3 layers, got 2");
  CHECK(attention("  window_size: 16\n  window_attn_skip_freq: '[2]'\n").find("expected 0 (all keys) or 1 (window)") !=
        std::string::npos);
  CHECK(attention("  qk_layernorm_all_heads: true\n") ==
        "m.yaml:10:27: attention.qk_layernorm_all_heads: 'qk_layernorm_all_heads' needs 'qk_layernorm: true'");
  CHECK(faults_of(edit(kMlaText, "  v_head_dim: 7\n", "  v_head_dim: 7\n  sinks: true\n")) ==
        "m.yaml:12:10: attention.sinks: 'sinks' is a key of 'kind: gqa' only");
  CHECK(moe("  moe_router_num_groups: 3\n  moe_router_group_topk: 1\n") == "");  // 2 experts for a top-k of 2
  CHECK(moe("  moe_router_num_groups: 4\n  moe_router_group_topk: 2\n") ==
        "m.yaml:12:26: moe.moe_router_num_groups: expected a divisor of num_experts (6), got '4'");
  CHECK(moe("  moe_router_num_groups: 3\n  moe_router_group_topk: 4\n") ==
        "m.yaml:13:26: moe.moe_router_group_topk: expected at most moe_router_num_groups (3), got '4'");
  CHECK(moe("  moe_router_num_groups: 6\n  moe_router_group_topk: 1\n") ==
        "m.yaml:13:26: moe.moe_router_group_topk: 1 groups of 1 experts are fewer than moe_router_topk (2)");
  CHECK(moe("  moe_router_num_groups: 3\n") == "m.yaml:11:3: moe: missing key 'moe_router_group_topk'");
  CHECK(moe("  moe_router_group_topk: 3\n") ==
        "m.yaml:12:26: moe.moe_router_group_topk: 'moe_router_group_topk' needs 'moe_router_num_groups'");
  CHECK(faults_of(std::string(kGqaText) + "mtp_num_layers: 17\n").find("from 0 to 16") != std::string::npos);
  CHECK(faults_of(std::string(kGqaText) + "mtp_num_layers: 16\n") == "");
  CHECK(faults_of(std::string(kGqaText) + "mlp: relu\n").find("expected one of swiglu, gelu") != std::string::npos);
  CHECK(faults_of(std::string(kGqaText) + "make_vocab_size_divisible_by: 0\n") != "");
}

TEST_CASE("layer kinds that have no model yet are refused by name") {
  for (const char* const kind : {"linear_attention", "mamba", "sparse_attention"}) {
    CHECK(faults_of(edit(kGqaText, "kind: moe, count: 2", std::string("kind: ") + kind + ", count: 2")) ==
          std::string("m.yaml:16:13: layers[1].kind: layers of kind '") + kind +
              "' are not supported in this version\n  hint: supported: dense, moe");
  }
}
