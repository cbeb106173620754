#include <array>
#include <string>

#include "cases.h"
#include "memory/replay.h"
#include "plan/static_memory.h"

// Which way memory moves when a setting does.
using namespace moeplan;
using moeplan::property::Case;

namespace {

std::vector<memory::RankMemory> ranks_of(const Case& c) {
  const plan::Plan plan = c.plan();
  std::vector<memory::RankMemory> ranks;
  for (std::int64_t rank = 0; rank < c.gpus(); ++rank) ranks.push_back(memory::replay(plan, rank));
  return ranks;
}

}  // namespace

TEST_CASE("what stays on a rank shrinks with every kind of state that is divided") {
  property::for_all("sharding", 60, [] {
    Case c = *property::any_case();
    std::array<std::vector<std::int64_t>, 4> bytes;  // by stage
    const std::array<const char*, 4> order = {"ddp", "zero1", "zero2", "zero3"};
    for (std::size_t i = 0; i < order.size(); ++i) {
      c.sharding = order[i];
      c.kind = "adam";
      const auto scenario = c.make();
      for (std::int64_t stage = 0; stage < c.pp; ++stage)
        bytes[i].push_back(plan::static_memory(*scenario, stage).steady_bytes());
      for (std::size_t stage = 0; i > 0 && stage < bytes[i].size(); ++stage)
        RC_ASSERT(bytes[i][stage] <= bytes[i - 1][stage]);
    }
  });
}

TEST_CASE("a larger microbatch never lowers a peak, for as many microbatches") {
  property::for_all("microbatch", 60, [] {
    Case c = *property::any_case();
    c.policies = "{}";
    const auto before = ranks_of(c);
    c.mbs *= 2;
    const auto after = ranks_of(c);
    for (std::size_t rank = 0; rank < before.size(); ++rank)
      RC_ASSERT(after[rank].peak.allocated_bytes >= before[rank].peak.allocated_bytes);
  });
}

TEST_CASE("more chunks never raise the peak of routed tensors") {
  property::for_all("chunks", 60, [] {
    Case c = *property::plain_case();
    if (c.dispatcher == "allgather") c.dispatcher = "alltoall";
    std::vector<std::int64_t> before;
    for (const char* chunks : {"1", "2", "4", "8"}) {
      c.policies = std::string("{ memfine: { rule: fixed, chunks: ") + chunks + " } }";
      const auto ranks = ranks_of(c);
      for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
        if (!before.empty()) RC_ASSERT(ranks[rank].routed_peak_bytes <= before[rank]);
      }
      before.clear();
      for (const auto& rank : ranks) before.push_back(rank.routed_peak_bytes);
    }
  });
}

// Selective recompute holds one module of the layer in backward at a time, full recompute the whole layer: with one
// layer in flight, full recompute has nothing to save and may lie above.
TEST_CASE("what is recomputed is not kept: selective <= none, full <= none, and full <= selective of several layers") {
  property::for_all("recompute", 60, [] {
    Case c = *property::plain_case();
    const std::string modules =
        *rc::gen::element<std::string>("core_attn", "layernorm", "moe_act", "mlp", "moe", "shared_experts",
                                       "core_attn, layernorm, moe_act", "mlp, moe, shared_experts");
    const auto none = ranks_of(c);
    c.memory = "{ recompute_granularity: selective, recompute_modules: [" + modules + "] }";
    const auto selective = ranks_of(c);
    c.memory = "{ recompute_granularity: full }";
    const auto full = ranks_of(c);
    const auto scenario = c.make();
    for (std::size_t rank = 0; rank < none.size(); ++rank) {
      RC_LOG() << modules << " rank " << rank << ": " << none[rank].peak.allocated_bytes << " "
               << selective[rank].peak.allocated_bytes << " " << full[rank].peak.allocated_bytes << "\n";
      RC_ASSERT(selective[rank].peak.allocated_bytes <= none[rank].peak.allocated_bytes);
      RC_ASSERT(full[rank].peak.allocated_bytes <= none[rank].peak.allocated_bytes);
      if (scenario->stages.layers_of(none[rank].stage).size() >= 2)
        RC_ASSERT(full[rank].peak.allocated_bytes <= selective[rank].peak.allocated_bytes);
    }
  });
}
