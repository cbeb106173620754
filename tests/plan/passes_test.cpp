#include "plan/passes.h"

#include <doctest/doctest.h>

#include <memory>
#include <string>

#include "cost/kernels.h"
#include "plan/blocks.h"
#include "plan/plan.h"
#include "support/scenarios.h"

using namespace moeplan;
using namespace moeplan::test;

namespace {

std::shared_ptr<const scenario::Scenario> titan(const std::string& training, const std::string& model = "tiny-moe",
                                                const std::string& framework = "torchtitan") {
  return scenario_from("model: " + model + "\ncluster: { hardware: h100-sxm, gpus: 1 }\nparallel: { tp: 1 }\n" +
                       "training: { mbs: 1, gbs: 1, seq: 256, framework: " + framework + training +
                       " }\nrouting: { balanced: true }\n");
}

// Whether the operation of that name takes what moving that many bytes does.
bool moves(const scenario::Scenario& s, const std::string& name, double bytes) {
  const plan::Block block = plan::make_dense_layer_block(s, plan::make_shape(s));
  for (const auto* ops : {&block.forward, &block.backward})
    for (const plan::Op& op : *ops)
      if (op.name == name)
        return op.seconds ==
               doctest::Approx(cost::memory_bound_time_s(bytes, cost::MemoryAccess::streaming, s.hardware));
  return false;
}

}  // namespace

TEST_CASE("compiled modules are one kernel each, modules as written are their operators") {
  const plan::Passes one = plan::passes(*titan(", compile: true")), apart = plan::passes(*titan(""));
  CHECK(one.norm_forward == 2 + 2);
  CHECK(one.norm_backward + one.residual_gradient == 4 * 2);
  CHECK(one.rotary == 2 + 2);
  CHECK(one.activation_forward == 3 * 2);
  CHECK(one.activation_backward == 5 * 2);
  // PyTorch has a kernel for the norm by itself; the sum of the residual gradient is an operator: reads two, writes
  // one.
  CHECK(apart.norm_forward == 4);
  CHECK(apart.norm_backward == 6);
  CHECK(apart.residual_gradient == 3 * 2);
  // to fp32 (2 + 4), complex product (4 + 4), to bf16 (4 + 2)
  CHECK(apart.rotary == 20);
  // silu (2 + 2), product (4 + 2); backward: two products (6 each), silu's (6)
  CHECK(apart.activation_forward == 10);
  CHECK(apart.activation_backward == 18);
}

TEST_CASE("before PyTorch 2.9 a norm is eleven operators, five of them forward and in fp32") {
  const plan::Passes old = plan::passes(*titan(", rms_norm_fusion: false"));
  // to fp32 6, square 8, mean 4, times root 8, to bf16 6, times weight 4
  CHECK(old.norm_forward == 36);
  // weight: 4 + 6 + 2; to fp32 6; root: 8 + 12 + 4; mean 4; square: 8 + 8 + 12; sum 12; to bf16 6
  CHECK(old.norm_backward == 92);
}

TEST_CASE("Megatron's modules are one kernel each, but activations where it is told so") {
  const plan::Passes usual = plan::passes(*titan("", "tiny-moe", "megatron")),
                     apart = plan::passes(*titan(", bias_activation_fusion: false", "tiny-moe", "megatron"));
  CHECK(usual.rotary == 4);
  CHECK(usual.activation_forward == 6);
  CHECK(apart.rotary == 4);
  CHECK(apart.activation_forward == 10);
  CHECK(apart.activation_backward == 18);
}

TEST_CASE("a layer moves the bytes of its operators") {
  // llama3-8b, 256 tokens: hidden 4096, 32 query and 8 key-value heads of 128, MLP of 14336.
  const auto one = titan(", compile: true", "llama3-8b"), old = titan(", rms_norm_fusion: false", "llama3-8b");
  const double hidden = 256 * 4096, rotated = 256.0 * 40 * 128, value = 256.0 * 8 * 128, wide = 256.0 * 14336;
  CHECK(moves(*one, "attention norm", 4 * hidden));
  CHECK(moves(*old, "attention norm", 36 * hidden));
  CHECK(moves(*one, "MLP norm backward", 8 * hidden));
  CHECK(moves(*old, "MLP norm backward", (92 + 6) * hidden));
  CHECK(moves(*one, "rotary embedding", 4 * (rotated + value)));
  CHECK(moves(*old, "rotary embedding", 20 * rotated + 4 * value));
  CHECK(moves(*old, "rotary embedding backward", 20 * rotated + 4 * value));
  CHECK(moves(*one, "MLP SwiGLU", 6 * wide));
  CHECK(moves(*old, "MLP SwiGLU", 10 * wide));
  CHECK(moves(*old, "MLP SwiGLU backward", 18 * wide));
}
