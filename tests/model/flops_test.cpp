#include <doctest/doctest.h>

#include <cmath>
#include <cstdint>
#include <string>

#include "model/parameters.h"
#include "support.h"

using namespace moeplan::model;
using moeplan::model::test::edit;
using moeplan::model::test::kGqaText;
using moeplan::model::test::kMlaText;
using moeplan::model::test::load;
using moeplan::model::test::read;

TEST_CASE("FLOPs per token agree with the published constants to 1 %") {
  struct Row {
    const char* name;
    std::int64_t seq_length;
    double tera_flops;
  };
  for (const Row& row :
       {Row{"deepseek-v3", 4096, 0.2600}, Row{"deepseek-v3-no-mtp", 4096, 0.2497}, Row{"kimi-k2", 4096, 0.2045},
        Row{"qwen3-235b-a22b", 4096, 0.1481}, Row{"qwen3-30b-a3b", 4096, 0.0231},
        Row{"moonlight-16b-a3b", 4096, 0.0172}, Row{"llama3-70b", 8192, 0.4488}, Row{"llama3-70b", 4096, 0.4322},
        Row{"llama3.1-405b", 8192, 2.524}}) {
    CAPTURE(row.name);
    CHECK(std::abs(training_flops_per_token(load(row.name), row.seq_length) / (row.tera_flops * 1e12) - 1.0) < 0.01);
  }
}

TEST_CASE("an MTP block adds its layer, a projection of 2h x h and its logits") {
  const double plain = training_flops_per_token(read(kGqaText), 64);
  // P = 576, C = 32 x 48 = 1536, experts 3 x 8 x 2 x 3 = 144, projection 128, head 80.
  CHECK(training_flops_per_token(read(std::string(kGqaText) + "mtp_num_layers: 2\n"), 64) - plain ==
        6.0 * 2 * (576 + 1536 + 144 + 128 + 80));
}

TEST_CASE("a window caps the keys of its layers, and does nothing in a shorter sequence") {
  const std::string text =
      edit(kGqaText, "  kv_channels: 6\n", "  kv_channels: 6\n  window_size: 16\n  window_attn_skip_freq: [1, 0, 1]\n");
  const double plain = training_flops_per_token(read(kGqaText), 64);
  // Two of three layers: C falls from 64 / 2 x 48 to 16 / 2 x 48.
  CHECK(plain - training_flops_per_token(read(text), 64) == 6.0 * 2 * 48 * (32 - 8));
  CHECK(training_flops_per_token(read(text), 16) == training_flops_per_token(read(kGqaText), 16));
  CHECK(training_flops_per_token(read(text), 17) < training_flops_per_token(read(kGqaText), 17));
}

TEST_CASE("gelu has two projections where SwiGLU has three") {
  // Dense 8 x 16 = 128 fewer, two MoE layers 8 x 2 x 3 = 48 fewer each.
  CHECK(training_flops_per_token(read(kGqaText), 64) -
            training_flops_per_token(read(std::string(kGqaText) + "mlp: gelu\n"), 64) ==
        6.0 * (128 + 2 * 48));
}

TEST_CASE("FLOPs per token of the shipped models, by hand") {
  // V3: P = 187,105,280 (the layer's attention without its latent norms), C = 2048 x 128 x 320 = 83,886,080, dense
  // 3 x 396,361,728, MoE 58 x 3 x 7168 x 9 x 2048, head 7168 x 129280.
  CHECK(training_flops_per_token(load("deepseek-v3-no-mtp"), 4096) ==
        6.0 * (61.0 * (187105280.0 + 83886080.0) + 3.0 * 396361728.0 + 58.0 * 396361728.0 + 926679040.0));
  // Qwen3: P = 2 x 2048 x 4096 + 2 x 2048 x 512, C = 2048 x 32 x 256, MoE 3 x 2048 x 8 x 768.
  CHECK(training_flops_per_token(load("qwen3-30b-a3b"), 4096) ==
        6.0 * (48.0 * (18874368.0 + 16777216.0 + 37748736.0) + 311164928.0));
  // V2-Lite, queries not compressed: P = 6,291,456 + 1,179,648 + 2,097,152 + 4,194,304, C = 2048 x 16 x 320, dense
  // 3 x 2048 x 10944, MoE 26 x 3 x 2048 x (6 x 1408 + 2816), head 2048 x 102400.
  CHECK(training_flops_per_token(load("deepseek-v2-lite"), 4096) ==
        6.0 * (27.0 * (13762560.0 + 10485760.0) + 67239936.0 + 26.0 * 69206016.0 + 209715200.0));
}

TEST_CASE("only the attention core grows with the sequence, by half the pairs") {
  const Architecture arch = read(kGqaText);
  // C = s/2 x 4 heads x (6 + 6) = 24 s: three layers, times 6.
  CHECK(training_flops_per_token(arch, 101) - training_flops_per_token(arch, 1) == doctest::Approx(6.0 * 3 * 24 * 100));
  // P = 576, dense 384, two MoE layers of 3 x 8 x 2 x 3 = 144, head 80.
  CHECK(training_flops_per_token(arch, 1) == 6.0 * (3.0 * (576.0 + 24.0) + 384.0 + 2.0 * 144.0 + 80.0));
}

TEST_CASE("biases, norms, router, shared gate and tied embeddings add no FLOPs but the shared expert does") {
  const double plain = training_flops_per_token(read(kGqaText), 64);
  const std::string extras =
      edit(kGqaText, "  kv_channels: 6\n", "  kv_channels: 6\n  add_qkv_bias: true\n  qk_layernorm: true\n");
  CHECK(training_flops_per_token(read(extras), 64) == plain);
  CHECK(training_flops_per_token(read(std::string(kGqaText) + "tie_word_embeddings: true\n"), 64) == plain);
  CHECK(training_flops_per_token(read(edit(kGqaText, "num_experts: 5", "num_experts: 50")), 64) == plain);
  const double gated = training_flops_per_token(read(kMlaText), 64);
  CHECK(training_flops_per_token(read(edit(kMlaText, "  moe_shared_expert_gate: true\n", "")), 64) == gated);
  // Two MoE layers lose a shared expert of 3 x 8 x 4.
  const std::string unshared =
      edit(edit(kMlaText, "  moe_shared_expert_gate: true\n", ""), "  moe_shared_expert_intermediate_size: 4\n", "");
  CHECK(gated - training_flops_per_token(read(unshared), 64) == doctest::Approx(6.0 * 2 * 96));
}
