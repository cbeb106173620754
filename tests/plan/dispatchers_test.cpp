#include <doctest/doctest.h>

#include "plan/block_memory.h"
#include "plan/plan.h"
#include "plan/static_memory.h"
#include "support/scenarios.h"

using namespace moeplan;
using namespace moeplan::test;

namespace {

// tiny-moe: h = 64, experts 32 wide, 8 of them, 2 a token. 4 GPUs, EP 2, 256 tokens a rank: 512 rows in the mean.
std::shared_ptr<const scenario::Scenario> with_moe(const std::string& moe, const std::string& hardware = "h100-sxm",
                                                   const std::string& parallel = "{ ep: 2 }",
                                                   const std::string& rest = "") {
  return scenario_from("model: tiny-moe\ncluster: { hardware: " + hardware + ", gpus: 4 }\nparallel: " + parallel +
                       "\ntraining: { mbs: 1, gbs: 8, seq: 256 }\nmoe: " + moe + "\nrouting: { balanced: true }\n" +
                       rest);
}

plan::Block moe_block(const scenario::Scenario& scenario, const plan::Treatment& treatment = {}) {
  return plan::make_moe_layer_block(scenario, plan::make_shape(scenario), treatment);
}

std::size_t waits(const std::vector<plan::Op>& ops) {
  std::size_t n = 0;
  for (const auto& o : ops) n += o.host_sync ? 1 : 0;
  return n;
}

}  // namespace

TEST_CASE("every dispatcher allocates and frees each tensor once, kept, recomputed and in chunks") {
  for (const char* moe : {"{ dispatcher: alltoall }", "{ dispatcher: allgather }", "{ dispatcher: deepep }",
                          "{ dispatcher: hybridep }", "{ dispatcher: hybridep, expert_rank_capacity_factor: 1.5 }",
                          "{ dispatcher: hybridep, expert_rank_capacity_factor: 1.5, paged_stash: true }"}) {
    CAPTURE(moe);
    for (const char* parallel : {"{ ep: 2 }", "{ ep: 1 }", "{ tp: 2, ep: 2, etp: 2 }"}) {
      CAPTURE(parallel);
      for (const char* memory : {"", "memory: { recompute_granularity: full }",
                                 "memory: { recompute_granularity: selective, recompute_modules: [moe_act] }",
                                 "memory: { recompute_granularity: selective, recompute_modules: [moe, layernorm] }"}) {
        CAPTURE(memory);
        const auto scenario = with_moe(moe, "h100-sxm", parallel, memory);
        for (const auto backward : {policy::RoutedBackward::kept, policy::RoutedBackward::recompute})
          check_conserved(moe_block(*scenario, {.chunks = 1, .backward = backward}));
        if (scenario->dispatch.kind != scenario::Dispatcher::allgather)
          check_conserved(moe_block(*scenario, {.chunks = 3, .backward = policy::RoutedBackward::recompute}));
      }
    }
  }
}

TEST_CASE("a token's row lands once on each rank that has one of its experts") {
  // 2 ranks, 2 of 8 experts: 2 (1 - C(4,2)/C(8,2)) = 2 x 22/28 = 11/7 ranks a token, 11/14 landed rows a routed one.
  const auto scenario = with_moe("{ dispatcher: deepep }");
  CHECK(plan::distinct_share(*scenario) == doctest::Approx(11.0 / 14.0));
  const auto plan = plan::make_plan(scenario, 0, 1);
  plan::Visit visit;
  visit.moe_layer = 0;
  CHECK(plan.rows({plan::Rows::Kind::received, false, 0}, visit, 0) == 512);
  CHECK(plan.rows({plan::Rows::Kind::distinct, false, 0}, visit, 0) == 403);  // 512 x 11/14 = 402.3
}

TEST_CASE("deepep: no permuted copy to send, landed rows, then rows by expert: the mirror image in backward") {
  const auto block = moe_block(*with_moe("{ dispatcher: deepep }"));
  const auto kept = kept_by_forward(block);
  CHECK(kept.at("expert input").bytes_per_row == 64 * 2);
  CHECK(kept.at("sort map").bytes_per_row == 8);
  CHECK(kept.at("dispatch handle").bytes == 256 * 2 * 5);  // a flag and an int32 a token and rank
  CHECK(kept.count("row map") == 0);
  CHECK(kept.count("landed rows") == 0);
  const auto& landed = tensor(block, "landed rows").size;
  CHECK(landed.bytes_per_row == 64 * 2);
  CHECK(landed.rows.kind == plan::Rows::Kind::distinct);
  CHECK(waits(block.forward) == 1);  // counts
  CHECK(waits(block.backward) == 0);
  for (const char* name : {"dispatch", "combine"}) {
    CHECK(op(block.forward, name).once_per_rank);
    CHECK(op(block.forward, name).size.bytes_per_row == 64 * 2);
    CHECK(op(block.forward, name).group == topology::GroupKind::etp_ep);
    CHECK(op(block.backward, std::string(name) + " backward").once_per_rank);
  }
  CHECK_FALSE(op(block.forward, "dispatch").towards_source);
  CHECK(op(block.forward, "combine").towards_source);
  CHECK_FALSE(op(block.backward, "combine backward").towards_source);
  CHECK(op(block.backward, "dispatch backward").towards_source);
  for (const auto& o : block.forward) CHECK(o.name != "permute");
}

TEST_CASE("hybridep: buffers of the capacity factor, whatever arrives, and a host that does not wait") {
  const auto loose = moe_block(*with_moe("{ dispatcher: hybridep }"));
  CHECK(kept_by_forward(loose).at("expert input").bytes_per_row == 64 * 2);
  CHECK(waits(loose.forward) == 1);
  const auto fixed = moe_block(*with_moe("{ dispatcher: hybridep, expert_rank_capacity_factor: 1.5 }"));
  const auto kept = kept_by_forward(fixed);
  // 1.5 x 256 tokens x 2 = 768 rows.
  CHECK(kept.at("expert input").bytes == 768 * 64 * 2);
  CHECK(kept.at("expert gate-up output").bytes == 768 * 2 * 32 * 2);
  CHECK(kept.at("expert activation").bytes == 768 * 32 * 2);
  CHECK(kept.at("dispatch handle").bytes == 256 * 2 * (4 + 4));  // an int32 and 4 local experts, a token and rank
  for (const auto& [name, size] : kept) CHECK(size.bytes_per_row == 0);
  CHECK(waits(fixed.forward) == 0);
}

TEST_CASE("paged stash: static buffers live while they are used, pages hold the rows that are there") {
  const auto block =
      moe_block(*with_moe("{ dispatcher: hybridep, expert_rank_capacity_factor: 1.5, paged_stash: true }"));
  const auto kept = kept_by_forward(block);
  CHECK(kept.count("expert input") == 0);
  CHECK(kept.count("expert gate-up output") == 0);
  CHECK(kept.at("stashed expert input").bytes_per_row == 64 * 2);
  CHECK(kept.at("stashed gate-up output").bytes_per_row == 2 * 32 * 2);
  CHECK(kept.at("stashed expert activation").bytes_per_row == 32 * 2);
  CHECK(kept.at("stashed expert probabilities").bytes_per_row == 4);
  CHECK(tensor(block, "expert input").size.bytes == 768 * 64 * 2);
  // Read and written: input, gate-up output, probability, activation.
  CHECK(op(block.backward, "restore stashed rows").size.bytes_per_row == 2 * (128 + 128 + 4 + 64));
}

TEST_CASE("allgather: the tokens of the whole group, summed back in fp32") {
  const auto block = moe_block(*with_moe("{ dispatcher: allgather }"));
  CHECK(tensor(block, "tokens of the expert group").size.bytes == 2 * 256 * 64 * 2);
  CHECK(op(block.forward, "gather tokens").size.bytes == 2 * 256 * 64 * 2);
  CHECK(op(block.forward, "sum outputs").size.bytes == 2 * 256 * 64 * 4);
  CHECK(op(block.backward, "gather output gradients").size.bytes == 2 * 256 * 64 * 4);
  CHECK(op(block.backward, "sum input gradients").size.bytes == 2 * 256 * 64 * 2);
  CHECK(op(block.forward, "gather tokens").group == topology::GroupKind::etp_ep);
  CHECK(waits(block.forward) == 1);  // the rows of local experts
  const auto kept = kept_by_forward(block);
  CHECK(kept.count("tokens of the expert group") == 0);
  CHECK(kept.at("expert input").bytes_per_row == 64 * 2);
  CHECK(kept.at("local routing map").bytes == 2 * 512 * 4);  // 512 tokens, 4 local experts, and its transpose
}

TEST_CASE("buffers of dispatch kernels lie outside the allocator") {
  CHECK(plan::dispatch_buffer_bytes(*with_moe("{ dispatcher: alltoall }")) == 0);
  CHECK(plan::dispatch_buffer_bytes(*with_moe("{ dispatcher: allgather }")) == 0);
  // 10 channels (20 multiprocessors) x 2 peers x 256 tokens x (2 h + 128 x 12 + 128 x 4 + 8).
  CHECK(plan::dispatch_buffer_bytes(*with_moe("{ dispatcher: deepep }")) == 10LL * 2 * 256 * (128 + 1536 + 512 + 8));
  CHECK(plan::dispatch_buffer_bytes(*with_moe("{ dispatcher: deepep, dispatcher_sms: 24 }")) ==
        12LL * 2 * 256 * (128 + 1536 + 512 + 8));
  // Every token of both ranks.
  CHECK(plan::dispatch_buffer_bytes(*with_moe("{ dispatcher: hybridep }")) == 2 * 256 * 64 * 2);
  CHECK(plan::dispatch_buffer_bytes(*with_moe("{ dispatcher: hybridep }", "h100-sxm", "{ ep: 1 }")) == 0);
  const auto memory = plan::static_memory(*with_moe("{ dispatcher: hybridep }"), 0);
  CHECK(memory.dispatcher_bytes == 2 * 256 * 64 * 2);
}

TEST_CASE("a profile without dispatch kernels: a warning, and a price all the same") {
  const auto priced = [](const std::string& hardware) {
    const auto scenario = with_moe("{ dispatcher: deepep }", hardware);
    std::size_t said = 0;
    for (const auto& line : scenario->warnings) said += line.find("states no dispatch kernels") != std::string::npos;
    return said;
  };
  CHECK(priced("a100-sxm-80gb") == 1);
  CHECK(priced("h100-sxm") == 0);
}

TEST_CASE("settings that are recorded alone, or do nothing, are named") {
  const auto scenario = scenario_from(
      "model: tiny-moe\ncluster: { hardware: h100-sxm, gpus: 4 }\nparallel: { ep: 2 }\ntraining: { mbs: 1, gbs: 8, "
      "seq: "
      "256, tp_comm_overlap: true, overlap_grad_reduce: true }\nmoe: { dispatcher: deepep, "
      "overlap_moe_expert_parallel_comm: true, delay_wgrad_compute: true }\nrouting: { balanced: true }\n");
  std::size_t said = 0;
  for (const auto& line : scenario->assumptions)
    said += line.find("does nothing") != std::string::npos || line.find("is recorded") != std::string::npos;
  CHECK(said == 1);  // tp_comm_overlap, of one tensor-parallel rank: the others are simulated
}

TEST_CASE("captured operations cost the host one launch a graph, in full iterations none and no wait") {
  const auto block = [](const std::string& graphs) {
    const auto scenario = scenario_from(
        "model: tiny-moe\ncluster: { hardware: h100-sxm, gpus: 4 }\nparallel: { ep: 2 }\ntraining: { mbs: 1, gbs: 8, "
        "seq: 256, " +
        graphs + " }\nmoe: { dispatcher: hybridep, expert_rank_capacity_factor: 2 }\nrouting: { balanced: true }\n");
    const auto plan = plan::make_plan(scenario, 0, 1);
    for (const auto& b : plan.blocks)
      if (b.name == "MoE layer") return b;
    return plan::Block{};
  };
  const auto none = block("cuda_graph_impl: none");
  for (const auto& o : none.forward) CHECK_FALSE(o.captured);
  const auto attention = block("cuda_graph_impl: transformer_engine, cuda_graph_scope: [attn]");
  CHECK_FALSE(op(attention.forward, "attention norm").captured);  // launches the graph
  CHECK(op(attention.forward, "attention norm").launches == 1);
  CHECK(op(attention.forward, "core attention").captured);
  CHECK_FALSE(op(attention.forward, "router").captured);
  CHECK(op(attention.backward, "core attention backward").captured);
  const auto router = block("cuda_graph_impl: local, cuda_graph_scope: [moe_router]");
  CHECK(op(router.forward, "router").captured);
  CHECK_FALSE(op(router.forward, "core attention").captured);
  const auto all = block("cuda_graph_impl: full_iteration");
  for (const auto* ops : {&all.forward, &all.backward})
    for (const auto& o : *ops)
      if (o.launches > 0) CHECK(o.captured);
}
