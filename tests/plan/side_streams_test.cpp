#include "plan/side_streams.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "plan/blocks.h"
#include "plan/static_memory.h"
#include "support/scenarios.h"

using namespace moeplan;
using moeplan::test::Small;

namespace {

std::int64_t at(const plan::BytesByKind& bytes, plan::TensorKind kind) { return bytes[static_cast<std::size_t>(kind)]; }

std::int64_t bytes_of(const plan::Block& block, const std::string& name) {
  for (const auto& tensor : block.tensors)
    if (tensor.name == name) return tensor.size.bytes;
  return -1;
}

// How often a tensor of the block is allocated by the ops of a direction.
int allocations(const plan::Block& block, const std::vector<plan::Op>& ops, const std::string& name) {
  int found = 0;
  for (const auto& op : ops)
    for (const auto id : op.allocates) found += block.tensors[id].name == name ? 1 : 0;
  return found;
}

Small with_optimizer(const std::string& optimizer) {
  Small small;  // 4 GPUs, ep 2: dense parameters on 4 ranks, experts on 2
  small.optimizer = optimizer;
  return small;
}

}  // namespace

TEST_CASE("what each sharding divides: states, gradients, parameters") {
  const auto p = plan::stage_parameters(*Small().make(), 0);
  const std::int64_t whole = p.dense + p.experts, owned = p.dense / 4 + p.experts / 2;
  struct Case {
    const char* optimizer;
    std::int64_t parameters, gradients;
  };
  const Case cases[] = {
      {"{ sharding: zero1 }", 2 * whole, 4 * whole},
      {"{ sharding: zero2 }", 2 * whole, 4 * owned},
      {"{ sharding: zero3 }", 2 * owned, 4 * owned},
      {"{ sharding: megatron_fsdp }", 2 * owned, 4 * owned},
      {"{ sharding: zero2, main_grads_dtype: bf16 }", 2 * whole, 2 * owned},
  };
  for (const Case& c : cases) {
    CAPTURE(std::string(c.optimizer));
    const auto memory = plan::static_memory(*with_optimizer(c.optimizer).make(), 0);
    CHECK(at(memory.load, plan::TensorKind::parameters) == c.parameters);
    CHECK(at(memory.load, plan::TensorKind::gradients) == c.gradients);
    CHECK(at(memory.load, plan::TensorKind::optimizer) + at(memory.moments, plan::TensorKind::optimizer) == 12 * owned);
  }
}

TEST_CASE("a shard group divides within itself: 16 bytes a parameter over its ranks") {
  // Two of four dense replicas; of the experts' two replicas the same half: one.
  const auto scenario = with_optimizer("{ sharding: zero1, shard_group: 2 }").make();
  const auto p = plan::stage_parameters(*scenario, 0);
  const auto memory = plan::static_memory(*scenario, 0);
  CHECK(at(memory.load, plan::TensorKind::optimizer) + at(memory.moments, plan::TensorKind::optimizer) ==
        12 * (p.dense / 2 + p.experts));
}

TEST_CASE("torchtitan's shards are fp32 parameters: 12 bytes a parameter over the group, and 4 that backward makes") {
  Small small = with_optimizer("{ sharding: fsdp2 }");
  auto text = small.make();
  auto scenario = std::make_shared<scenario::Scenario>(*text);
  scenario->training.framework = scenario::Framework::torchtitan;
  const auto p = plan::stage_parameters(*scenario, 0);
  CHECK(plan::static_memory(*scenario, 0).steady_bytes() == 12 * (p.dense / 4 + p.experts / 2));
  plan::Block block = plan::make_moe_layer_block(*scenario, plan::make_shape(*scenario), {});
  plan::divide_parameters(block, *scenario, {1000, 501}, false);
  CHECK(bytes_of(block, "gradient shards") == 4 * (1000 / 4 + 251));  // each rank has the padded half of 501
  CHECK(allocations(block, block.backward, "gradient shards") == 1);
  CHECK(block.tensors.back().of_step);
}

TEST_CASE("torchtitan's pipeline stages keep parameters whole and sum whole gradients, which travel once a step") {
  Small small = with_optimizer("{ sharding: fsdp2 }");
  small.gpus = 8;
  small.pp = 2;
  auto scenario = std::make_shared<scenario::Scenario>(*small.make());
  scenario->training.framework = scenario::Framework::torchtitan;
  const auto p = plan::stage_parameters(*scenario, 0);
  const auto memory = plan::static_memory(*scenario, 0);
  CHECK(at(memory.load, plan::TensorKind::parameters) ==
        4 * (p.dense / 4 + p.experts / 2) + 2 * (p.dense + p.experts));  // fp32 shards, bf16 whole
  CHECK(at(memory.load, plan::TensorKind::gradients) == 4 * (p.dense + p.experts));
  const auto transfers = [&](bool edge) {
    plan::Block block = plan::make_moe_layer_block(*scenario, plan::make_shape(*scenario), {});
    plan::divide_parameters(block, *scenario, {1000, 500}, edge);
    std::pair<std::int64_t, std::int64_t> bytes;
    for (const auto* ops : {&block.forward, &block.backward})
      for (const auto& op : *ops) {
        if (op.stream == plan::Stream::gather) bytes.first += op.size.bytes;
        if (op.stream == plan::Stream::reduce) bytes.second += op.size.bytes;
      }
    CHECK(bytes_of(block, "gathered parameters") == -1);
    CHECK(allocations(block, block.backward, "whole gradients") == 1);
    return bytes;
  };
  CHECK(transfers(false) == std::pair<std::int64_t, std::int64_t>(0, 0));
  CHECK(transfers(true) == std::pair<std::int64_t, std::int64_t>(2 * 1500, 4 * 1500));
}

TEST_CASE("divided parameters are whole for their block and the one ahead, gradients for one block") {
  const auto scenario = with_optimizer("{ sharding: zero3 }").make();
  plan::Block block = plan::make_moe_layer_block(*scenario, plan::make_shape(*scenario), {});
  plan::divide_parameters(block, *scenario, {1000, 500}, false);
  CHECK(bytes_of(block, "gathered parameters") == 2 * 1500);
  CHECK(bytes_of(block, "gathered parameters, the block ahead") == 2 * 1500);
  CHECK(bytes_of(block, "whole gradients") == 2 * 1500);
  CHECK(bytes_of(block, "gradients being scattered, the block behind") == 4 * 1500);
  CHECK(allocations(block, block.forward, "gathered parameters") == 1);
  CHECK(allocations(block, block.backward, "gathered parameters") == 1);
  CHECK(allocations(block, block.backward, "whole gradients") == 1);
  std::int64_t gathered = 0, scattered = 0;
  for (const auto* ops : {&block.forward, &block.backward})
    for (const auto& op : *ops) {
      if (op.stream == plan::Stream::gather) gathered += op.size.bytes;
      if (op.stream == plan::Stream::reduce) scattered += op.size.bytes;
    }
  CHECK(gathered == 2 * 2 * 1500);  // bf16, in forward and again in backward
  CHECK(scattered == 4 * 1500);     // as the fp32 buffer is
}

TEST_CASE("divided gradients are tensors of their own: nothing stands in for them") {
  const auto scenario = with_optimizer("{ sharding: zero3 }").make();
  plan::Block head = plan::make_head_block(*scenario, plan::make_shape(*scenario));
  CHECK(bytes_of(head, "output layer returned weight gradient") == 2 * 1024 * 64);
  plan::divide_parameters(head, *scenario, {1024 * 64, 0}, false);
  CHECK(bytes_of(head, "output layer returned weight gradient") == 0);
}

TEST_CASE("zero2 keeps parameters whole and scatters gradients: zero1 changes no block") {
  const auto blocks = [](const char* optimizer) {
    const auto scenario = with_optimizer(optimizer).make();
    plan::Block block = plan::make_dense_layer_block(*scenario, plan::make_shape(*scenario));
    plan::divide_parameters(block, *scenario, {1000, 0}, false);
    return block;
  };
  const auto zero1 = blocks("{ sharding: zero1 }"), zero2 = blocks("{ sharding: zero2, grad_reduce_dtype: bf16 }");
  CHECK(bytes_of(zero1, "whole gradients") == -1);
  CHECK(bytes_of(zero2, "gathered parameters") == -1);
  CHECK(bytes_of(zero2, "gradients being scattered, the block behind") == 2 * 1000);
  CHECK(zero2.forward.size() == zero1.forward.size());
}

TEST_CASE("offloaded tensors are gone between forward and backward, and come back whole") {
  Small small;
  small.memory = "{ offload_modules: [core_attn, attn_proj, expert_fc1, moe_act] }";
  const auto scenario = small.make();
  plan::Block block = plan::make_moe_layer_block(*scenario, plan::make_shape(*scenario), {});
  plan::offload_activations(block, *scenario);
  for (const std::string name :
       {"query", "key", "value", "attention output", "expert input", "expert gate-up output"}) {
    CAPTURE(name);
    CHECK(allocations(block, block.forward, name) == 1);
    CHECK(allocations(block, block.backward, name) == 1);
  }
  CHECK(allocations(block, block.backward, "layer input") == 0);  // of a module that is not named
  // As many bytes go as come back.
  std::int64_t out = 0, back = 0, rows_out = 0, rows_back = 0;
  for (const auto& op : block.forward)
    if (op.stream == plan::Stream::to_host) out += op.size.bytes, rows_out += op.size.bytes_per_row;
  for (const auto& op : block.backward)
    if (op.stream == plan::Stream::from_host) back += op.size.bytes, rows_back += op.size.bytes_per_row;
  CHECK(out > 0);
  CHECK(out == back);
  CHECK(rows_out == 2 * (64 + 2 * 32));  // a row of hidden 64, and gate and up of 32
  CHECK(rows_out == rows_back);
}

TEST_CASE("an offloaded optimizer leaves the device by its fraction, to the byte") {
  const auto none = plan::static_memory(*Small().make(), 0);
  const auto half =
      plan::static_memory(*with_optimizer("{ sharding: zero1, cpu_offload: true, offload_fraction: 0.5 }").make(), 0);
  CHECK(none.host_bytes == 0);
  CHECK(half.host_bytes + half.steady_bytes() == none.steady_bytes());
  const auto p = plan::stage_parameters(*Small().make(), 0);
  CHECK(half.host_bytes == 6 * (p.dense / 4 + p.experts / 2));  // half of 12 bytes
}

TEST_CASE("an optimizer on the host updates in memory that the GPUs of a node share") {
  const auto half = with_optimizer("{ sharding: zero1, cpu_offload: true, offload_fraction: 0.5 }").make();
  const auto p = plan::stage_parameters(*half, 0);
  // Four of eight GPUs of a node: each has a quarter of 461 GB/s. A parameter is 4 + 2 * 12 + 2 = 30 bytes.
  const double owned = static_cast<double>(p.dense / 4 + p.experts / 2);
  const auto update_s = [](const scenario::Scenario& s) {
    for (const plan::Op& op : plan::make_optimizer_block(s, 0).forward)
      if (op.name == "Adam on the host") {
        CHECK(op.launches > 0);  // without, it would be a hand-over between blocks, which takes no time
        return op.seconds;
      }
    return -1.0;
  };
  CHECK(update_s(*half) == doctest::Approx(0.5 * owned * 30 * 4 / 461e9));
  CHECK(update_s(*with_optimizer("{ sharding: zero1 }").make()) == -1.0);
  // Without the key it takes no time, and that is said.
  Small unknown = with_optimizer("{ sharding: zero1, cpu_offload: true }");
  unknown.hardware = "a100-pcie-80gb";
  const auto silent = unknown.make();
  CHECK(update_s(*silent) == 0.0);
  CHECK(std::any_of(silent->assumptions.begin(), silent->assumptions.end(), [](const std::string& line) {
    return line.find("states no host.memory_bandwidth") != std::string::npos;
  }));
}
