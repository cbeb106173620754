#include "plan/blocks.h"

#include <doctest/doctest.h>

#include <map>
#include <string>
#include <vector>

#include "support/scenarios.h"

using namespace moeplan;
using moeplan::test::Small;

namespace {

plan::Block moe_block(const plan::Treatment& treatment, const std::string& memory = "{}",
                      const std::string& model = "tiny-moe") {
  Small small;
  small.model = model;
  small.memory = memory;
  const auto scenario = small.make();
  return plan::make_moe_layer_block(*scenario, plan::make_shape(*scenario), treatment);
}

std::vector<std::string> names(const std::vector<plan::Op>& ops) {
  std::vector<std::string> list;
  for (const auto& op : ops) list.push_back(op.name);
  return list;
}

std::size_t count(const std::vector<plan::Op>& ops, const std::string& name) {
  std::size_t n = 0;
  for (const auto& op : ops) n += op.name == name ? 1 : 0;
  return n;
}

std::vector<std::string> without_first(std::vector<std::string> list, const std::string& name) {
  for (auto it = list.begin(); it != list.end(); ++it)
    if (*it == name) {
      list.erase(it);
      break;
    }
  return list;
}

}  // namespace

TEST_CASE("MemFine with one chunk is the recompute of the routed part plus one notify") {
  const auto recompute = moe_block({.chunks = 1, .backward = policy::RoutedBackward::recompute});
  const auto memfine = moe_block({.chunks = 1, .backward = policy::RoutedBackward::recompute, .layer_notify = true});
  CHECK(count(memfine.forward, "notify") == count(recompute.forward, "notify") + 1);
  CHECK(without_first(names(memfine.forward), "notify") == names(recompute.forward));
  CHECK(names(memfine.backward) == names(recompute.backward));
}

TEST_CASE("each chunk has its own notify, dispatch, experts and combine, forward and backward") {
  const auto block = moe_block({.chunks = 4, .backward = policy::RoutedBackward::recompute, .layer_notify = true});
  CHECK(count(block.forward, "notify") == 5);  // one a chunk and the layer's
  CHECK(count(block.forward, "dispatch") == 4);
  CHECK(count(block.forward, "combine") == 4);
  CHECK(count(block.forward, "expert down") == 4);
  CHECK(count(block.forward, "concatenate chunks") == 1);
  // Backward: forward of the chunk again (dispatch and combine), then the two all-to-alls of its gradients.
  CHECK(count(block.backward, "dispatch") == 4);
  CHECK(count(block.backward, "combine backward") == 4);
  CHECK(count(block.backward, "dispatch backward") == 4);
  CHECK(count(block.backward, "expert gate-up wgrad") == 4);
}

TEST_CASE("re-dispatch sends input, gradient and index of a row, and recomputes the first projection alone") {
  const auto block = moe_block({.chunks = 1, .backward = policy::RoutedBackward::redispatch, .select = true});
  for (const auto& op : block.backward)
    if (op.name == "re-dispatch") CHECK(op.size.bytes_per_row == 2 * 64 * 2 + 8);  // 2 h D_t + 8, h = 64
  CHECK(count(block.backward, "expert gate-up") == 1);
  CHECK(count(block.backward, "expert down") == 0);
  CHECK(count(block.backward, "plan quotas") == 1);
  CHECK(count(block.backward, "select pairs") == 1);
}

TEST_CASE("mode A selects in forward, keeps retained rows, and sends gradients alone") {
  const auto block = moe_block({.chunks = 1, .backward = policy::RoutedBackward::kept_retained, .select = true});
  CHECK(count(block.forward, "plan quotas") == 1);
  CHECK(count(block.forward, "select pairs") == 1);
  CHECK(count(block.backward, "plan quotas") == 0);
  CHECK(count(block.backward, "notify") == 0);
  CHECK(count(block.backward, "expert gate-up") == 0);  // no first projection again
  CHECK(count(block.backward, "expert SwiGLU") == 0);
  CHECK(count(block.backward, "send retained gradients") == 1);
  for (const auto& op : block.backward) {
    if (op.name == "send retained gradients") CHECK(op.size.bytes_per_row == 64 * 2 + 8);  // h D_t + 8, h = 64
    if (op.work == plan::Work::grouped_gemm) CHECK(op.size.rows.backward);
    CHECK_FALSE(op.recompute);
  }
  // Counts of all rows and of the retained ones: 2 members x 8 experts x 2 x 8 bytes.
  for (const auto& op : block.forward)
    if (op.name == "notify") CHECK(op.size.bytes == 2 * 8 * 2 * 8);
  // Forward leaves no tensor of all rows behind.
  std::vector<char> alive(block.tensors.size(), 0);
  for (const auto& op : block.forward) {
    for (auto id : op.allocates) alive[id] = 1;
    for (auto id : op.frees) alive[id] = 0;
  }
  std::size_t retained = 0;
  for (std::size_t id = 0; id < alive.size(); ++id) {
    if (!alive[id] || block.tensors[id].size.bytes_per_row == 0) continue;
    CHECK(block.tensors[id].size.rows.backward);
    ++retained;
  }
  CHECK(retained == 6);  // input, probabilities, sort map, gate-up output, activation, row map
}

TEST_CASE("with moe_act mode A recomputes the activation of the retained rows") {
  const auto block = moe_block({.chunks = 1, .backward = policy::RoutedBackward::kept_retained, .select = true},
                               "{ recompute_granularity: selective, recompute_modules: [moe_act] }");
  CHECK(count(block.forward, "keep retained activations") == 0);
  std::size_t again = 0;
  for (const auto& op : block.backward) again += op.name == "expert SwiGLU" && op.recompute ? 1 : 0;
  CHECK(again == 1);
}

TEST_CASE("instances of experts: weights go out, main gradients come back: twice where forward keeps nothing") {
  plan::Treatment treatment{.chunks = 1, .backward = policy::RoutedBackward::kept_retained, .select = true};
  treatment.plan_placement = treatment.replicate = true;
  const auto kept = moe_block(treatment);
  CHECK(count(kept.forward, "place experts") == 1);
  CHECK(count(kept.backward, "place experts") == 0);
  CHECK(count(kept.backward, "return expert gradients") == 1);
  // One expert of tiny-moe: 3 x 64 x 32 elements, bf16 weights and fp32 gradients.
  for (const auto& op : kept.forward)
    if (op.name == "place experts") CHECK(op.size.bytes_per_row == 3 * 64 * 32 * 2);
  for (const auto& op : kept.backward)
    if (op.name == "return expert gradients") {
      CHECK(op.size.bytes_per_row == 3 * 64 * 32 * 4);
      CHECK(op.towards_source);
    }
  treatment.backward = policy::RoutedBackward::redispatch;
  const auto sent_again = moe_block(treatment);
  CHECK(count(sent_again.forward, "plan placement") == 1);
  CHECK(count(sent_again.forward, "place experts") == 1);
  CHECK(count(sent_again.backward, "place experts") == 1);
  CHECK(count(sent_again.backward, "return expert gradients") == 1);
}

TEST_CASE("rows padded to capacity need no exchange of counts") {
  plan::Treatment treatment;
  treatment.padded = true;
  CHECK(count(moe_block(treatment).forward, "notify") == 0);
  CHECK(count(moe_block({}).forward, "notify") == 1);
}

TEST_CASE("selective recompute runs its module again in backward and marks it as recompute") {
  const std::map<std::string, std::string> module_op = {{"core_attn", "core attention"},
                                                        {"layernorm", "attention norm"},
                                                        {"moe_act", "expert SwiGLU"},
                                                        {"moe", "router"}};
  for (const auto& [module, op] : module_op) {
    CAPTURE(module);
    const auto block = moe_block({}, "{ recompute_granularity: selective, recompute_modules: [" + module + "] }");
    std::size_t again = 0;
    for (const auto& o : block.backward) again += o.name == op && o.recompute ? 1 : 0;
    CHECK(again == 1);
    for (const auto& o : block.forward) CHECK_FALSE(o.recompute);
  }
}

TEST_CASE("full recompute keeps the layer input alone") {
  const auto block = moe_block({}, "{ recompute_granularity: full }");
  std::vector<char> alive(block.tensors.size(), 0);
  for (const auto& op : block.forward) {
    for (auto id : op.allocates) alive[id] = 1;
    for (auto id : op.frees) alive[id] = 0;
  }
  std::vector<std::string> kept;
  for (std::size_t id = 0; id < alive.size(); ++id)
    if (alive[id]) kept.push_back(block.tensors[id].name);
  CHECK(kept == std::vector<std::string>{"layer input"});
}

TEST_CASE("with one rank in the expert group nothing is exchanged") {
  Small small;
  small.ep = 1;
  const auto scenario = small.make();
  const auto block = plan::make_moe_layer_block(*scenario, plan::make_shape(*scenario), {});
  for (const auto* ops : {&block.forward, &block.backward})
    for (const auto& op : *ops) CHECK(op.work != plan::Work::all_to_all);
}

TEST_CASE("module moe under MemFine and LRMoE adds the router and the shared expert to what is recomputed") {
  for (const auto backward : {policy::RoutedBackward::recompute, policy::RoutedBackward::redispatch}) {
    const auto plain = moe_block({.chunks = 2, .backward = backward}, "{}", "tiny-mla");
    const auto module = moe_block({.chunks = 2, .backward = backward},
                                  "{ recompute_granularity: selective, recompute_modules: [moe] }", "tiny-mla");
    CHECK(count(plain.backward, "router") == 0);
    CHECK(count(module.backward, "router") == 1);
    CHECK(count(plain.backward, "shared expert gate-up") == 0);
    CHECK(count(module.backward, "shared expert gate-up") == 1);
    CHECK(count(module.backward, "dispatch") == count(plain.backward, "dispatch"));
  }
}

TEST_CASE("with tensor parallelism the gradients of replicated parameters are summed once a step") {
  Small small;
  small.tp = 2;
  const auto scenario = small.make();
  const auto parameters = plan::stage_parameters(*scenario, 0);
  // Two layers of two norms of 64, the router 64 x 8, and the final norm.
  CHECK(parameters.replicated == 2 * 2 * 64 + 64 * 8 + 64);
  const auto block = plan::make_optimizer_block(*scenario, 0);
  CHECK(block.forward.front().name == "reduce gradients of replicated parameters");
  CHECK(block.forward.front().size.bytes == 4 * parameters.replicated);
}

TEST_CASE("thousands of chunks have tensors of their own") {
  const auto block = moe_block({.chunks = 4096, .backward = policy::RoutedBackward::redispatch, .select = true});
  CHECK(block.tensors.size() > 65536);
  for (const auto& op : block.backward)
    for (auto id : op.allocates) CHECK(id < block.tensors.size());
  CHECK(count(block.backward, "re-dispatch") == 4096);
}

TEST_CASE("a sliding window shortens attention by its share of the causal pairs") {
  Small small;
  small.model = "tiny-dense";
  small.ep = 1;
  small.routing = "";
  small.seq = 65536;
  const auto scenario = small.make();
  const auto attention_s = [&](std::int64_t window) {
    for (const auto& op : plan::make_dense_layer_block(*scenario, plan::make_shape(*scenario), {window, false}).forward)
      if (op.name == "core attention") return op.seconds;
    return 0.0;
  };
  // A quarter of the sequence: (s w - w^2 / 2) / (s^2 / 2) = 2/4 - 1/16.
  CHECK(attention_s(16384) == doctest::Approx(attention_s(0) * (0.5 - 0.0625)));
  CHECK(attention_s(65536) == attention_s(0));
}
