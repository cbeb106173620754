#include <doctest/doctest.h>

#include <algorithm>

#include "plan/block_memory.h"
#include "plan/plan.h"
#include "support/scenarios.h"

using namespace moeplan;
using namespace moeplan::test;

namespace {

plan::Block head(const std::string& parallel, const std::string& training = ", framework: torchtitan") {
  const auto s =
      scenario_from("model: tiny-moe\ncluster: { hardware: h100-sxm, gpus: 4 }\nparallel: " + parallel +
                    "\ntraining: { mbs: 1, gbs: 8, seq: 256" + training + " }\nrouting: { balanced: true }\n");
  return plan::make_head_block(*s, plan::make_shape(*s));
}

// The most bytes of logits and what comes of them at once.
std::int64_t most(const plan::Block& block, const std::vector<plan::Op>& ops, std::int64_t alive = 0) {
  const auto bytes = [&](const std::vector<std::uint32_t>& ids) {
    std::int64_t sum = 0;
    for (const std::uint32_t id : ids)
      if (block.tensors[id].kind == plan::TensorKind::logits_loss &&
          block.tensors[id].name.find("norm") == std::string::npos)
        sum += block.tensors[id].size.bytes;
    return sum;
  };
  // "log-softmax" holds no "norm", "final norm output gathered" does.
  std::int64_t highest = 0;
  for (const plan::Op& op : ops) {
    alive += bytes(op.allocates);
    highest = std::max(highest, alive);
    alive -= bytes(op.frees);
  }
  return highest;
}

}  // namespace

TEST_CASE("torchtitan's loss is not compiled unless stated: the fp32 log-softmax is kept alone") {
  // tiny-moe: 256 tokens, vocabulary of 1000, padded to 1024.
  const std::int64_t logits = 256 * 1024;
  const auto eager = head("{ ep: 2 }"),
             fused = head("{ ep: 2 }", ", framework: torchtitan, cross_entropy_loss_fusion: true");
  check_conserved(eager);
  const auto kept = kept_by_forward(eager);
  CHECK(kept.count("logits (bf16)") == 0);
  CHECK(kept.at("log-softmax (fp32)").bytes == 4 * logits);
  CHECK(kept_by_forward(fused).count("log-softmax (fp32)") == 0);
  CHECK(kept_by_forward(fused).at("softmax (fp32)").bytes == 4 * logits);
}

TEST_CASE("whole vocabularies: 10 bytes a logit in forward, 12 in backward") {
  const std::int64_t logits = 256 * 1024;
  const auto block = head("{ ep: 2 }");
  CHECK(most(block, block.forward) == (2 + 4 + 4) * logits);               // bf16, fp32, log-softmax
  CHECK(most(block, block.backward, 4 * logits) == (4 + 4 + 4) * logits);  // log-softmax, its gradient, its input's
}

TEST_CASE("divided vocabularies: 14 bytes a logit of the rank in forward, 16 in backward") {
  const std::int64_t logits = 256 * 1024 / 2;
  const auto block = head("{ tp: 2, ep: 2 }");
  check_conserved(block);
  CHECK(kept_by_forward(block).at("log-softmax (fp32)").bytes == 4 * logits);
  CHECK(most(block, block.forward) == (2 + 4 + 4 + 4) * logits);  // bf16, fp32, shifted, exponentials
  CHECK(most(block, block.backward, 4 * logits) == (4 + 4 + 4 + 4) * logits);
}
