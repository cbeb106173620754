#include <doctest/doctest.h>

#include "plan/block_memory.h"
#include "plan/linear_input.h"
#include "plan/plan.h"
#include "plan/static_memory.h"
#include "support/scenarios.h"

using namespace moeplan;
using namespace moeplan::test;

namespace {

std::shared_ptr<const scenario::Scenario> in(const std::string& precision, const std::string& hardware,
                                             const std::string& optimizer = "{}", bool gather = true) {
  return scenario_from(
      "model: tiny-moe\ncluster: { hardware: " + hardware +
      ", gpus: 4 }\nparallel: { ep: 2 }\ntraining: { mbs: 1, gbs: 8, seq: 256, precision: " + precision +
      (gather ? ", fp8_param_gather: true" : "") + " }\noptimizer: " + optimizer + "\nrouting: { balanced: true }\n");
}
std::int64_t parameters(const scenario::Scenario& scenario) {
  return plan::static_memory(scenario, 0).load[static_cast<std::size_t>(plan::TensorKind::parameters)];
}

}  // namespace

TEST_CASE("fp8 parameters: no bf16 beside them: transposed copies on Hopper, none of tensorwise on Blackwell") {
  const auto scenario = in("fp8_tensorwise", "h100-sxm");
  const auto p = plan::stage_parameters(*scenario, 0);
  const std::int64_t linear = plan::stage_linear_parameters(*scenario, 0), rest = 2 * (p.dense + p.experts - linear);
  CHECK(parameters(*scenario) == rest + 2 * linear);
  CHECK(parameters(*in("fp8_tensorwise", "gb200-nvl72")) == rest + linear);
  CHECK(parameters(*in("fp8_blockwise", "h100-sxm")) == rest + 2 * linear);
  CHECK(parameters(*in("mxfp8", "gb200-nvl72")) == rest + 2 * ((33 * linear + 31) / 32));
  // Two bytes an element of linear layers less than with bf16 beside them.
  for (const char* precision : {"fp8_tensorwise", "fp8_blockwise", "mxfp8"})
    CHECK(parameters(*in(precision, "gb200-nvl72", "{}", false)) - parameters(*in(precision, "gb200-nvl72")) ==
          2 * linear);
}

TEST_CASE("the gather carries a byte an element, but bf16 under mxfp8: what is not linear stays bf16") {
  const auto gathered = [](const scenario::Scenario& scenario) {
    std::int64_t bytes = 0;
    for (const auto& op : plan::make_optimizer_block(scenario, 0).forward)
      if (op.name == "gather parameters" || op.name == "gather expert parameters") bytes += op.size.bytes;
    return bytes;
  };
  const auto narrow = in("fp8_tensorwise", "h100-sxm");
  const auto p = plan::stage_parameters(*narrow, 0);
  const std::int64_t linear = plan::stage_linear_parameters(*narrow, 0), all = p.dense + p.experts;
  CHECK(gathered(*narrow) == 2 * all - linear);
  CHECK(gathered(*in("mxfp8", "gb200-nvl72")) == 2 * all);
  CHECK(gathered(*in("fp8_tensorwise", "h100-sxm", "{}", false)) == 2 * all);
}

TEST_CASE("sharded fp8 parameters: a byte a shard, gathered so, and transposed for backward where that is needed") {
  const auto layer = [](const char* hardware, bool gather) {
    const auto plan = plan::make_plan(in("fp8_tensorwise", hardware, "{ sharding: megatron_fsdp }", gather), 0, 1);
    for (const auto& block : plan.blocks)
      if (block.name == "MoE layer") return block;
    return plan::Block{};
  };
  const auto block = layer("h100-sxm", true);
  check_conserved(block);
  const std::int64_t whole = tensor(layer("h100-sxm", false), "gathered parameters").size.bytes;
  // Linear: attention 128 x 64 + 64 x 64, four experts of 3 x 64 x 32; bf16: two norms of 64, router 8 x 64.
  const std::int64_t linear = 128 * 64 + 64 * 64 + 4 * 3 * 64 * 32, rest = 2 * 64 + 8 * 64;
  CHECK(whole == 2 * (linear + rest));
  CHECK(tensor(block, "gathered parameters").size.bytes == linear + 2 * rest);
  CHECK(tensor(block, "gathered parameters, transposed").size.bytes == linear);
  for (const auto& t : layer("gb200-nvl72", true).tensors) CHECK(t.name != "gathered parameters, transposed");
  const auto sharded = in("fp8_tensorwise", "h100-sxm", "{ sharding: megatron_fsdp }");
  const auto wide = in("fp8_tensorwise", "h100-sxm", "{ sharding: megatron_fsdp }", false);
  const auto p = plan::stage_parameters(*sharded, 0);
  const std::int64_t owned = p.dense / 4 + p.experts / 2;
  const double share =
      static_cast<double>(plan::stage_linear_parameters(*sharded, 0)) / static_cast<double>(p.dense + p.experts);
  const auto saved = static_cast<double>(parameters(*wide) - parameters(*sharded));
  CHECK(saved == doctest::Approx(share * static_cast<double>(owned)).epsilon(1e-3));
}
