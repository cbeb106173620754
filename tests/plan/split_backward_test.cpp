#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "plan/side_streams.h"
#include "plan/write_programs.h"
#include "support/scenarios.h"

using namespace moeplan;
using moeplan::test::Small;
using moeplan::test::staged;

namespace {

using Names = std::set<std::string>;

// Tensors that are alive between a block's backward and its weight gradients, those without bytes left out.
Names kept_for_weights(const plan::Block& block) {
  std::vector<char> alive(block.tensors.size(), 0);
  for (const auto* ops : {&block.forward, &block.backward})
    for (const plan::Op& op : *ops) {
      for (const auto id : op.allocates) alive[id] = 1;
      for (const auto id : op.frees) alive[id] = 0;
    }
  Names names;
  for (std::size_t id = 0; id < alive.size(); ++id)
    if (alive[id] && (block.tensors[id].size.bytes != 0 || block.tensors[id].size.bytes_per_row != 0))
      names.insert(block.tensors[id].name);
  return names;
}

Names names_of(const std::vector<plan::Op>& ops) {
  Names names;
  for (const plan::Op& op : ops) names.insert(op.name);
  return names;
}

plan::Block dense_block(const std::shared_ptr<const scenario::Scenario>& s) {
  return plan::make_dense_layer_block(*s, plan::make_shape(*s));
}

std::int64_t of_kind(const plan::StaticMemory& memory, plan::TensorKind kind) {
  return memory.load[static_cast<std::size_t>(kind)] + memory.moments[static_cast<std::size_t>(kind)];
}

}  // namespace

TEST_CASE("a dense layer keeps inputs of its linear layers and gradients of their outputs until their weights") {
  Small small;
  small.model = "tiny-dense";
  small.ep = 1;
  plan::Block block = dense_block(small.make());
  const Names before = names_of(block.backward);
  plan::split_backward(block);
  CHECK(names_of(block.weights) ==
        Names{"MLP down wgrad", "MLP gate-up wgrad", "attention projection wgrad", "qkv projection wgrad"});
  Names both = names_of(block.backward);
  both.merge(names_of(block.weights));
  CHECK(both == before);
  // Input and output gradient of each: qkv reads the attention norm's output, the projection the attention output,
  // gate-up the MLP norm's output, down the activation. Gradients of the projection and of down are those of the
  // residual stream. Layer input, attention residual, query, key, value and statistics have gone.
  CHECK(kept_for_weights(block) == Names{"attention norm output", "qkv gradient", "attention output",
                                         "attention residual gradient", "MLP norm output", "MLP gate-up gradient",
                                         "MLP activation", "layer output gradient"});
}

TEST_CASE("with tensor parallelism inputs are gathered again for the weights alone, gradients stay gathered") {
  Small small;
  small.model = "tiny-dense";
  small.ep = 1;
  small.tp = 2;
  plan::Block block = dense_block(small.make());
  plan::split_backward(block);
  CHECK(names_of(block.weights) == Names{"MLP down wgrad", "MLP all-gather again", "MLP gate-up wgrad",
                                         "attention projection wgrad", "attention all-gather again",
                                         "qkv projection wgrad"});
  CHECK(kept_for_weights(block) == Names{"attention norm output", "qkv gradient", "attention output",
                                         "attention gathered gradient", "MLP norm output", "MLP gate-up gradient",
                                         "MLP activation", "MLP gathered output gradient"});
}

TEST_CASE("in a narrow precision the copies that weight gradients read stay, those of input gradients go") {
  Small small;
  small.model = "tiny-dense";
  small.ep = 1;
  auto s = std::make_shared<scenario::Scenario>(*small.make());
  s->training.precision = scenario::Precision::fp8_blockwise;  // two copies, scaled along rows and along columns
  plan::Block block = dense_block(s);
  plan::split_backward(block);
  const Names kept = kept_for_weights(block);
  CHECK(kept == Names{"attention norm output, quantised", "qkv gradient, quantised", "attention output, quantised",
                      "attention projection gradient, quantised", "MLP norm output, quantised",
                      "MLP gate-up gradient, quantised", "MLP activation, quantised",
                      "MLP output gradient, quantised"});
}

TEST_CASE("each half of mirrored ranks: twice the parameters and gradients, the same optimizer states in all") {
  for (const char* sharding : {"zero1", "ddp"}) {
    Small plain = staged("1f1b", 4), dual = staged("dualpipe", 4);
    plain.optimizer = dual.optimizer = "{ sharding: " + std::string(sharding) + " }";
    const auto one = plain.make(), two = dual.make();
    const auto sum = [](const scenario::Scenario& s, plan::TensorKind kind) {
      std::int64_t bytes = 0;
      for (std::int64_t stage = 0; stage < 4; ++stage) bytes += of_kind(plan::static_memory(s, stage), kind);
      return bytes;
    };
    CHECK(sum(*two, plan::TensorKind::parameters) == 2 * sum(*one, plan::TensorKind::parameters));
    CHECK(sum(*two, plan::TensorKind::gradients) == 2 * sum(*one, plan::TensorKind::gradients));
    // Shards are cut over both ranks that hold a stage; whole states are on both.
    const std::int64_t states = sum(*one, plan::TensorKind::optimizer);
    const bool cut = std::string(sharding) == "zero1";
    CHECK(sum(*two, plan::TensorKind::optimizer) ==
          doctest::Approx(static_cast<double>(cut ? states : 2 * states)).epsilon(1e-3));
  }
}

TEST_CASE("a V is one pipeline of twice the stages: parameters as elsewhere, the first rank with embedding and loss") {
  const auto v = staged("zb_v", 2).make(), flat = staged("1f1b", 4).make();
  const auto parameters = [](const scenario::Scenario& s, std::int64_t stage) {
    const auto p = plan::stage_parameters(s, stage);
    return p.dense + p.experts;
  };
  CHECK(parameters(*v, 0) == parameters(*flat, 0) + parameters(*flat, 3));
  CHECK(parameters(*v, 1) == parameters(*flat, 1) + parameters(*flat, 2));
}

TEST_CASE("a V's turn hands over on the rank itself, and its second arm sends backwards") {
  const auto plan = plan::make_plan(staged("zb_v", 2).make(), 0, 1);
  const auto transfers = [&](std::int64_t stage) {
    std::map<plan::Stream, std::int64_t> count;
    for (const plan::Program& program : plan.programs) {
      if (program.stage != stage) continue;
      for (const plan::Visit& visit : program.visits)
        for (const plan::Op& op : plan::ops_of(plan.blocks[static_cast<std::size_t>(visit.block)], visit.direction))
          if (op.work == plan::Work::send || op.work == plan::Work::receive) ++count[op.stream];
      break;
    }
    return count;
  };
  // Eight microbatches cross the one border four times: two ways forward, two ways backward.
  using plan::Stream;
  CHECK(transfers(0) == std::map<Stream, std::int64_t>{{Stream::send_next, 8},         // activations of chunk 0
                                                       {Stream::receive_previous, 8},  // activations of chunk 1
                                                       {Stream::send_gradients_ahead, 8},
                                                       {Stream::receive_next, 8}});
  CHECK(transfers(1) == std::map<Stream, std::int64_t>{{Stream::receive_previous, 8},
                                                       {Stream::send_activations_back, 8},
                                                       {Stream::receive_next, 8},
                                                       {Stream::send_previous, 8}});
}

TEST_CASE("gradients that are summed beside backward wait for the weights of the last microbatch") {
  const std::string text =
      "model: tiny-mla\ncluster: { hardware: h100-sxm, gpus: 8 }\nparallel: { pp: 2, ep: 2 }\ntraining: { "
      "micro_batch_size: 1, global_batch_size: 32, seq_length: 256, overlap_grad_reduce: true, overlap_param_gather: "
      "true, schedule: ";
  for (const char* schedule : {"zb_h1", "zb_v", "dualpipe", "dualpipe_v"}) {
    CAPTURE(schedule);
    const auto plan = plan::make_plan(test::scenario_from(text + schedule + " }\nrouting: { balanced: true }\n"), 0, 1);
    for (const plan::Program& program : plan.programs) {
      std::map<std::int32_t, std::int64_t> reduced, gathered;  // by slot
      std::map<std::int32_t, std::size_t> last_weights;
      for (std::size_t v = 0; v < program.visits.size(); ++v) {
        const plan::Visit& visit = program.visits[v];
        const auto& ops = plan::ops_of(plan.blocks[static_cast<std::size_t>(visit.block)], visit.direction);
        for (const plan::Op& op : ops) {
          if (op.stream == plan::Stream::gather && op.name == "gather parameters" && visit.first_op == 0)
            ++gathered[visit.slot];
          if (op.weight_gradient) CHECK(reduced[visit.slot] == 0);  // none comes behind the sum
        }
        if (!visit.last_part()) continue;
        for (const plan::Op& op : ops)
          if (op.stream == plan::Stream::reduce && op.name == "reduce gradients") ++reduced[visit.slot];
      }
      for (const auto& [slot, times] : reduced) CHECK((times == 0 || times == 1));
      CHECK(std::count_if(reduced.begin(), reduced.end(), [](const auto& entry) { return entry.second == 1; }) >= 2);
      for (const auto& [slot, times] : gathered) CHECK(times == 1);
    }
  }
}
