#include <doctest/doctest.h>

#include "plan/block_memory.h"
#include "plan/plan.h"
#include "plan/static_memory.h"
#include "support/scenarios.h"

using namespace moeplan;
using namespace moeplan::test;

namespace {

// 256 tokens a rank, h = 64.
std::shared_ptr<const scenario::Scenario> in(const std::string& precision, const std::string& hardware,
                                             const std::string& model = "tiny-moe", const std::string& training = "",
                                             const std::string& rest = "", const std::string& parallel = "{ ep: 2 }") {
  return scenario_from("model: " + model + "\ncluster: { hardware: " + hardware + ", gpus: 4 }\nparallel: " + parallel +
                       "\ntraining: { mbs: 1, gbs: 8, seq: 256, precision: " + precision + training +
                       " }\nrouting: { balanced: true }\n" + rest);
}

plan::Block moe_block(const scenario::Scenario& scenario, const plan::Treatment& treatment = {}) {
  return plan::make_moe_layer_block(scenario, plan::make_shape(scenario), treatment);
}
plan::Block dense_block(const scenario::Scenario& scenario) {
  return plan::make_dense_layer_block(scenario, plan::make_shape(scenario));
}

}  // namespace

TEST_CASE("every precision and framework allocates and frees each tensor once, both directions, every recompute") {
  for (const char* precision : {"fp16", "fp8_tensorwise", "fp8_rowwise", "fp8_blockwise", "mxfp8", "nvfp4"})
    for (const char* framework : {", framework: megatron", ", framework: torchtitan"})
      for (const char* model : {"tiny-moe", "tiny-mla"})
        for (const char* parallel : {"{ ep: 2 }", "{ tp: 2, ep: 2 }"})
          for (const char* rest :
               {"", "memory: { recompute_granularity: full }",
                "memory: { recompute_granularity: selective, recompute_modules: [core_attn, layernorm, moe_act] }",
                "memory: { recompute_granularity: selective, recompute_modules: [mlp, moe, shared_experts] }",
                "moe: { dispatcher: hybridep, expert_rank_capacity_factor: 1.5, paged_stash: true }"}) {
            CAPTURE(precision);
            CAPTURE(framework);
            CAPTURE(model);
            CAPTURE(parallel);
            CAPTURE(rest);
            const auto scenario = in(precision, "gb200-nvl72", model, framework, rest, parallel);
            check_conserved(moe_block(*scenario));
            check_conserved(moe_block(*scenario, {.chunks = 2, .backward = policy::RoutedBackward::recompute}));
            if (std::string(model) == "tiny-mla") check_conserved(dense_block(*scenario));
          }
  for (const auto backward : {policy::RoutedBackward::redispatch, policy::RoutedBackward::kept_retained})
    check_conserved(moe_block(*in("fp8_tensorwise", "h100-sxm"), {.chunks = 1, .backward = backward, .select = true}));
  check_conserved(
      moe_block(*in("fp8_tensorwise", "h100-sxm", "tiny-mla", "",
                    "memory: { recompute_granularity: selective, recompute_modules: [mla_up_proj, layernorm] }")));
}

TEST_CASE("tensorwise fp8: inputs of linear layers are kept in a byte an element, what else reads them in bf16") {
  const auto kept = kept_by_forward(moe_block(*in("fp8_tensorwise", "h100-sxm")));
  CHECK(kept.count("attention norm output") == 0);
  CHECK(kept.at("attention norm output, quantised").bytes == 256 * 64);
  CHECK(kept.at("MoE norm output").bytes == 256 * 64 * 2);  // the router reads it, in bf16
  CHECK(kept.at("attention output, quantised").bytes == kept.at("attention output").bytes / 2);  // attention's own, too
  CHECK(kept.at("expert input, quantised").bytes_per_row == 64);
  CHECK(kept.count("expert input") == 0);
  CHECK(kept.at("expert gate-up output").bytes_per_row == 2 * 32 * 2);  // SwiGLU's, in bf16
  CHECK(kept.at("expert activation, quantised").bytes_per_row == 32);
  CHECK(kept.count("expert activation") == 0);
}

TEST_CASE("scales: 33/32 bytes an element of mxfp8 and blockwise fp8, 18/32 of nvfp4") {
  const auto input = [](const char* precision) {
    return kept_by_forward(moe_block(*in(precision, "gb200-nvl72"))).at("expert input, quantised").bytes_per_row;
  };
  CHECK(input("mxfp8") == 66);          // 64 + 64/32
  CHECK(input("fp8_blockwise") == 66);  // 64 + 4 x 64/128
  CHECK(input("nvfp4") == 36);          // 32 + 64/16
}

TEST_CASE("mla: each down-projection keeps its own copy of the norm's output, latents are kept narrow") {
  const auto scenario = in("fp8_tensorwise", "h100-sxm", "tiny-mla");
  const auto kept = kept_by_forward(moe_block(*scenario));
  CHECK(kept.count("attention norm output") == 0);
  CHECK(kept.at("key-value projection input, quantised").bytes == 256 * 64);
  CHECK(kept.at("query projection input, quantised").bytes == 256 * 64);
  CHECK(kept.at("key-value latent, normed, quantised").bytes == 256 * scenario->model.attention.kv_lora_rank);
  CHECK(kept.at("shared expert input, quantised").bytes == 256 * 64);  // beside the router's bf16
}

TEST_CASE("weights: bf16 and copies for both directions: Blackwell's tensorwise fp8 needs one") {
  const auto parameters = [](const char* precision, const char* hardware, const char* training = "") {
    const auto scenario = in(precision, hardware, "tiny-moe", training);
    return plan::static_memory(*scenario, 0).load[static_cast<std::size_t>(plan::TensorKind::parameters)];
  };
  const std::int64_t linear = plan::stage_linear_parameters(*in("bf16", "h100-sxm"), 0);
  // What stays bf16: embedding and head, router 64 x 8, five norms of 64.
  const auto scenario = in("bf16", "h100-sxm");
  const auto all = plan::stage_parameters(*scenario, 0);
  const auto vocabulary = plan::make_shape(*scenario).vocab_rank * 64;
  CHECK(linear == all.dense + all.experts - 2 * vocabulary - 64 * 8 - 5 * 64);
  CHECK(parameters("fp8_tensorwise", "h100-sxm") == parameters("bf16", "h100-sxm") + 2 * linear);
  CHECK(parameters("fp8_tensorwise", "gb200-nvl72") == parameters("bf16", "gb200-nvl72") + linear);
  CHECK(parameters("mxfp8", "gb200-nvl72") == parameters("bf16", "gb200-nvl72") + 2 * ((linear * 33 + 31) / 32));
  CHECK(parameters("fp8_tensorwise", "h100-sxm", ", framework: torchtitan") ==
        parameters("bf16", "h100-sxm", ", framework: torchtitan"));
}

TEST_CASE("torchtitan casts in front of every product and keeps what bf16 keeps") {
  const auto wide = kept_by_forward(moe_block(*in("bf16", "h100-sxm", "tiny-moe", ", framework: torchtitan")));
  const auto narrow =
      kept_by_forward(moe_block(*in("fp8_tensorwise", "h100-sxm", "tiny-moe", ", framework: torchtitan")));
  REQUIRE(wide.size() == narrow.size());
  for (const auto& [name, size] : wide) {
    CAPTURE(name);
    CHECK(narrow.at(name).bytes == size.bytes);
    CHECK(narrow.at(name).bytes_per_row == size.bytes_per_row);
  }
}

TEST_CASE("router, output layer and attention stay bf16: expert products carry the precision") {
  const auto wide = in("bf16", "h100-sxm"), narrow = in("fp8_tensorwise", "h100-sxm");
  const auto a = moe_block(*wide), b = moe_block(*narrow);
  for (const char* name : {"router", "core attention"})
    CHECK(op(a.forward, name).seconds == op(b.forward, name).seconds);
  CHECK(op(b.forward, "expert gate-up").precision == cost::Precision::fp8);
  CHECK(op(b.backward, "expert down wgrad").precision == cost::Precision::fp8);
  CHECK(op(a.forward, "expert gate-up").precision == cost::Precision::bf16);
  const auto head = [](const scenario::Scenario& s) { return plan::make_head_block(s, plan::make_shape(s)); };
  CHECK(op(head(*wide).forward, "output layer").seconds == op(head(*narrow).forward, "output layer").seconds);
  // 8192 tokens of h = 8192: what narrow units are for. The cast reads twice (its maximum first) and writes twice.
  const auto& cast = op(b.forward, "quantise expert input");
  CHECK(cast.size.bytes_per_row == 2 * 2 * 64 + 2 * 64);
  CHECK(cast.launches == 2);
}

TEST_CASE("cross-entropy: unfused kernels move more") {
  const auto head = [](const std::string& training) {
    const auto s = in("bf16", "h100-sxm", "tiny-moe", training);
    return plan::make_head_block(*s, plan::make_shape(*s));
  };
  const auto fused = head(""), unfused = head(", cross_entropy_loss_fusion: false");
  for (const auto* block : {&fused, &unfused}) check_conserved(*block);
  CHECK(op(unfused.forward, "cross-entropy").seconds > op(fused.forward, "cross-entropy").seconds);
  CHECK(op(unfused.backward, "cross-entropy backward").seconds > op(fused.backward, "cross-entropy backward").seconds);
  const auto logits = tensor(fused, "logits (bf16)").size.bytes / 2;
  CHECK(kept_by_forward(unfused).count("logits (bf16)") == 0);  // nobody reads them after the softmax
  const auto in_place = head(", cross_entropy_fusion_impl: te");
  check_conserved(in_place);
  CHECK(kept_by_forward(in_place).at("logits (bf16)").bytes == 2 * logits);  // their gradient since forward
  CHECK(tensor(in_place, "softmax (fp32)").size.bytes == 0);
}

TEST_CASE("torchtitan's SwiGLU keeps the activated gate besides") {
  const auto scenario = in("bf16", "h100-sxm", "tiny-mla", ", framework: torchtitan");
  const auto kept = kept_by_forward(moe_block(*scenario));
  CHECK(kept.at("expert activated gate").bytes_per_row == 32 * 2);
  CHECK(kept.at("shared expert activated gate").bytes == 256 * 64 * 2);
  CHECK(kept_by_forward(dense_block(*scenario)).at("MLP activated gate").bytes == 256 * 128 * 2);
  CHECK(kept_by_forward(moe_block(*in("bf16", "h100-sxm"))).count("expert activated gate") == 0);
}

TEST_CASE("selective_op keeps every second product, attention and reduce-scatters, and runs the rest again") {
  const std::string rest = "memory: { recompute_granularity: selective_op }";
  const auto titan = [&](const char* model, const char* parallel) {
    return in("bf16", "h100-sxm", model, ", framework: torchtitan", rest, parallel);
  };
  const auto scenario = titan("tiny-moe", "{ ep: 2 }");
  const auto dense = dense_block(*scenario), moe = moe_block(*scenario);
  check_conserved(dense);
  check_conserved(moe);
  // GQA of 4 heads and 2 groups of 16: q 64, k 32, v 32, o 64, w1 128, w3 128, w2 64. Kept: q, v, attention's output 64
  // with 4 B a head, w1, w2.
  auto kept = kept_by_forward(dense);
  CHECK(kept.size() == 2);
  CHECK(kept.at("layer input").bytes == 256 * 64 * 2);
  CHECK(kept.at("kept operator outputs").bytes == 256 * ((64 + 32 + 64 + 128 + 64) * 2 + 4 * 4));
  // A MoE layer without shared expert: attention's alone.
  CHECK(kept_by_forward(moe).at("kept operator outputs").bytes == 256 * ((64 + 32 + 64) * 2 + 4 * 4));
  const auto again = [](const plan::Block& block, const std::string& name) {
    for (const auto& o : block.backward)
      if (o.name == name && (o.recompute || o.launches == 0)) return o.seconds;
    return -1.0;
  };
  CHECK(again(dense, "core attention") == 0);
  CHECK(again(dense, "MLP down") == 0);
  CHECK(again(dense, "MLP gate-up") == doctest::Approx(op(dense.forward, "MLP gate-up").seconds / 2));
  CHECK(again(dense, "qkv projection") ==
        doctest::Approx(op(dense.forward, "qkv projection").seconds / 4));  // k of all
  CHECK(again(dense, "attention projection") == op(dense.forward, "attention projection").seconds);
  CHECK(again(dense, "attention norm") > 0);
  CHECK(op(moe.backward, "expert gate-up").recompute);
  // MLA: latents' down-projections and the output are the odd ones; with tp 2 outputs are summed by reduce-scatters.
  for (const char* parallel : {"{ ep: 2 }", "{ tp: 2, ep: 2 }"}) {
    const auto mla = titan("tiny-mla", parallel);
    check_conserved(moe_block(*mla));
    check_conserved(dense_block(*mla));
  }
  // q down 24, kv down 24, attention's output 4 x 16 with 4 B a head, o 64; MLP: w1 again, w3 128 kept, w2 again.
  CHECK(kept_by_forward(dense_block(*titan("tiny-mla", "{ ep: 2 }"))).at("kept operator outputs").bytes ==
        256 * ((24 + 24 + 64 + 64 + 128) * 2 + 4 * 4));
}
