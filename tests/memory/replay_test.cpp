#include "memory/replay.h"

#include <doctest/doctest.h>

#include <numeric>
#include <string>

#include "memory/walk.h"
#include "plan/library_memory.h"
#include "support/scenarios.h"

using namespace moeplan;
using moeplan::test::Small;

namespace {
std::int64_t aligned(std::int64_t bytes) { return (bytes + 511) / 512 * 512; }
}  // namespace

TEST_CASE("allocations are rounded up to 512 bytes") {
  CHECK(memory::allocation_bytes(0) == 0);
  CHECK(memory::allocation_bytes(1) == 512);
  CHECK(memory::allocation_bytes(512) == 512);
  CHECK(memory::allocation_bytes(513) == 1024);
}

TEST_CASE("what a microbatch keeps, by hand: one more microbatch in flight costs exactly that") {
  // tiny-dense: h 64, g 128, 4 heads of 16, 2 key-value heads, V 1024 padded; T = 256 tokens, bf16. gpipe holds all
  // microbatches at once.
  const std::int64_t t = 256, h = 64, g = 128, a = 4, kv = 2, d = 16, v = 1024;
  const std::int64_t layer = aligned(2 * t * h)                                  // layer input
                             + aligned(2 * t * h) + aligned(4 * t)               // attention norm: output, statistics
                             + aligned(2 * t * a * d) + aligned(2 * t * kv * d)  // rotated query and key
                             + aligned(2 * t * kv * d)                           // value, copied out of qkv
                             + aligned(2 * t * a * d) + aligned(4 * t * a)       // attention output, log-sum-exp
                             + aligned(2 * t * h)                                // residual after attention
                             + aligned(2 * t * h) + aligned(4 * t)               // MLP norm
                             + aligned(2 * t * 2 * g) + aligned(2 * t * g);      // gate-up, activation
  const std::int64_t head =
      aligned(2 * t * h) + aligned(2 * t * h) + aligned(4 * t) + aligned(4 * t * v);  // the bf16 logits are gone
  Small small;
  small.model = "tiny-dense";
  small.ep = 1;
  small.routing = "";
  small.schedule = "gpipe";
  auto peak = [&](int microbatches) {
    small.gbs = 4 * microbatches;
    return memory::replay(plan::make_plan(small.make(), 0, 1), 0).peak.allocated_bytes;
  };
  CHECK(peak(2) - peak(1) == 2 * layer + head);
  CHECK(peak(5) - peak(3) == 2 * (2 * layer + head));
}

TEST_CASE("what a MoE layer keeps, by hand: rows that arrived, rows that were sent") {
  // tiny-moe: E 8, top-2, g 32, ep 2: balanced, a rank sends 512 copies and receives 512. Against the dense layer of
  // the same model: no gate-up and activation of 128.
  const std::int64_t t = 256, h = 64, experts = 8, ge = 32, rows = 512;
  const std::int64_t routed = aligned(4 * t * experts) * 2 + aligned(t * experts)     // scores, probabilities, map
                              + aligned(8 * rows) + aligned(8 * rows)                 // row map, sort map
                              + aligned(2 * rows * h) + aligned(4 * rows)             // expert input, probabilities
                              + aligned(2 * rows * 2 * ge) + aligned(2 * rows * ge);  // gate-up, activation
  const std::int64_t dense_mlp = aligned(2 * t * 2 * 128) + aligned(2 * t * 128);
  Small moe, dense;
  moe.schedule = dense.schedule = "gpipe";
  dense.model = "tiny-dense";
  dense.ep = 1;
  dense.routing = "";
  auto kept = [&](Small small) {
    small.gbs = 8;
    const auto two = memory::replay(plan::make_plan(small.make(), 0, 1), 0);
    small.gbs = 12;
    return memory::replay(plan::make_plan(small.make(), 0, 1), 0).peak.allocated_bytes - two.peak.allocated_bytes;
  };
  CHECK(kept(moe) - kept(dense) == routed - dense_mlp);
}

TEST_CASE("1F1B holds p - r microbatches: the first stage of two holds two, the last one") {
  Small small;
  small.model = "tiny-mla";
  small.pp = 2;
  small.gbs = 16;  // 8 microbatches on each of 2 replicas
  const auto many = plan::make_plan(small.make(), 0, 1);
  small.gbs = 4;  // two microbatches
  const auto two = plan::make_plan(small.make(), 0, 1);
  small.gbs = 2;  // one
  const auto one = plan::make_plan(small.make(), 0, 1);
  auto peak = [](const plan::Plan& plan, std::int64_t rank) { return memory::replay(plan, rank).peak.allocated_bytes; };
  CHECK(peak(many, 0) == peak(two, 0));
  CHECK(peak(two, 0) > peak(one, 0));
  CHECK(peak(many, 2) == peak(one, 2));
}

TEST_CASE("every recompute setting, sharding and treatment frees what it allocates") {
  // Walk stops with an internal error when a tensor is allocated twice, freed dead, or outlives its backward.
  const std::vector<std::string> modules = {"core_attn", "layernorm", "mla_up_proj",   "moe_act",
                                            "mlp",       "moe",       "shared_experts"};
  for (const std::string model : {"tiny-mla", "tiny-mla-direct", "tiny-moe"}) {
    for (unsigned set = 0; set < (1U << modules.size()); ++set) {
      if (model == "tiny-moe" && (set & 4U) != 0) continue;  // mla_up_proj needs latent attention
      std::string list;
      for (std::size_t m = 0; m < modules.size(); ++m)
        if ((set >> m & 1U) != 0) list += (list.empty() ? "" : ", ") + modules[m];
      Small small;
      small.model = model;
      small.gbs = 4;
      small.tp = set % 2 == 0 ? 1 : 2;
      small.ep = set % 3 == 0 ? 1 : 2;
      small.memory = set == 0 ? "{ recompute_granularity: full }"
                              : "{ recompute_granularity: selective, recompute_modules: [" + list + "] }";
      small.routing = "{ lognormal: { sigma: 1.0, seed: 4 } }";  // rows that are cut, experts that are replicated
      const char* policies[] = {"",
                                "{ memfine: { rule: fixed, chunks: 3 } }",
                                "{ lrmoe: { min_rows: 1 } }",
                                "{ memfine: { rule: fixed, chunks: 2 }, lrmoe: { min_rows: 1 } }",
                                "{ lrmoe: { mode: A, min_rows: 1 } }",
                                "{ memfine: { rule: fixed, chunks: 2 }, lrmoe: { mode: A, min_rows: 1 } }",
                                "{ lrmoe: { replicas: greedy, min_rows: 1 } }",
                                "{ lrmoe: { mode: A, replicas: greedy, min_rows: 1 } }",
                                "{ capacity: { factor: 1.1 }, lrmoe: { mode: A, min_rows: 1 } }",
                                "{ capacity: { factor: 1.1, pad: true } }",
                                "{ capacity: { pad: true }, memfine: { rule: fixed, chunks: 3 } }"};
      small.policies = policies[set % 11];
      CAPTURE(model);
      CAPTURE(list);
      CAPTURE(small.policies);
      const auto plan = plan::make_plan(small.make(), 0, 1);
      for (std::int64_t rank = 0; rank < 4; ++rank) CHECK_NOTHROW(memory::replay(plan, rank));
    }
  }
}

TEST_CASE("mode A keeps q rows where the baseline keeps all, by hand") {
  // tiny-moe, ep 2, one microbatch more in flight under gpipe. Kept a received row: expert input 2 h, probability 4,
  // sort map 8, gate-up 4 g_e, activation 2 g_e; a sent row: row map 8. h 64, g_e 32.
  const std::int64_t h = 64, ge = 32;
  auto routed_rows = [&](std::int64_t in, std::int64_t out) {
    return aligned(2 * in * h) + aligned(4 * in) + aligned(8 * in) + aligned(4 * in * ge) + aligned(2 * in * ge) +
           aligned(8 * out);
  };
  Small small;
  small.schedule = "gpipe";
  small.routing = "{ lognormal: { sigma: 1.0, seed: 4 } }";
  auto plan_of = [&](const char* policies, int microbatches) {
    small.policies = policies;
    small.gbs = 4 * microbatches;
    return plan::make_plan(small.make(), 0, 1);
  };
  const char* mode_a = "{ lrmoe: { mode: A, tau: 1.0, min_rows: 1, min_retained: 0.1 } }";
  const auto all_2 = plan_of("", 2), all_3 = plan_of("", 3), kept_2 = plan_of(mode_a, 2), kept_3 = plan_of(mode_a, 3);
  bool cut = false;
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    auto peak = [&](const plan::Plan& plan) { return memory::replay(plan, rank).peak.allocated_bytes; };
    const std::int64_t member = rank % 2;
    const auto& rows = kept_3.decision(0, 2, rank / 2);
    REQUIRE(rows.backward == policy::RoutedBackward::kept_retained);
    const auto& f = rows.forward_rows[0];
    const auto& q = rows.backward_rows[0];
    // Log-normal loads are the same in every microbatch, so one more adds the kept bytes of its rows.
    CHECK((peak(all_3) - peak(all_2)) - (peak(kept_3) - peak(kept_2)) ==
          routed_rows(f.received(member), f.sent(member)) - routed_rows(q.received(member), q.sent(member)));
    cut = cut || q.received(member) < f.received(member);
  }
  CHECK(cut);
}

TEST_CASE("an instance costs its weights and gradients on the rank that hosts it, one gradient where it is at home") {
  // Qwen3-30B-A3B's experts: 3 x 2048 x 768 elements, 2 bytes a weight and 4 a main gradient.
  const std::int64_t elements = 3 * 2048 * 768;
  Small small;
  small.model = "qwen3-30b-a3b";
  small.hardware = "h200-sxm";  // room beside 18 bytes a parameter: instances need free memory
  small.gpus = small.ep = small.gbs = 8;
  small.seq = 4096;
  small.routing = "{ lognormal: { sigma: 1.0, seed: 4 } }";
  for (const char* policies :
       {"{ lrmoe: { mode: A, replicas: greedy } }", "{ lrmoe: { mode: B, replicas: greedy } }"}) {
    small.policies = policies;
    const auto plan = plan::make_plan(small.make(), 0, 1);
    std::int64_t hosted = 0;
    for (std::int64_t rank = 0; rank < 8; ++rank) {
      CHECK_NOTHROW(memory::replay(plan, rank));
      for (const auto& visit : plan.program_of(rank).visits) {
        if (visit.moe_layer < 0 || visit.direction == schedule::Direction::backward) continue;
        const auto& decision = plan.decision(visit.moe_layer, 0, 0);
        if (decision.replicas.empty()) continue;
        hosted += decision.extra_instances(rank);
        for (const auto& tensor : plan.blocks[static_cast<std::size_t>(visit.block)].tensors) {
          const std::int64_t bytes = plan.bytes(tensor.size, visit, rank);
          if (tensor.name == "weights of hosted experts") CHECK(bytes == decision.extra_instances(rank) * elements * 2);
          if (tensor.name == "gradients of hosted experts")
            CHECK(bytes == decision.extra_instances(rank) * elements * 4);
          if (tensor.name == "returned expert gradients") CHECK(bytes == decision.lent_instances(rank) * elements * 4);
        }
      }
    }
    CHECK(hosted > 0);
  }
}

TEST_CASE("phases: moments appear in the first optimizer step: the breakdown adds up to the peak") {
  Small small;
  small.optimizer = "{ sharding: ddp }";
  const auto plan = plan::make_plan(small.make(), 0, 1);
  const auto memory = memory::replay(plan, 1);
  const auto at = [&](memory::Phase phase) { return memory.phase_peak_bytes[static_cast<std::size_t>(phase)]; };
  const auto p = plan::stage_parameters(*plan.scenario, 0);
  CHECK(at(memory::Phase::steady_iteration) - at(memory::Phase::first_iteration) ==
        8 * (p.dense + p.experts) + plan::returned_gradient_bytes(*plan.scenario, 0));
  CHECK(at(memory::Phase::first_optimizer_step) == memory.static_bytes);
  CHECK(memory.peak.phase == memory::Phase::steady_iteration);
  CHECK(std::accumulate(memory.peak.by_kind.begin(), memory.peak.by_kind.end(), std::int64_t{0}) ==
        memory.peak.allocated_bytes);
  std::int64_t alive = 0;
  for (const auto& tensor : memory::alive_at_peak(plan, memory)) alive += tensor.bytes;
  CHECK(alive == memory.peak.allocated_bytes);
}

TEST_CASE("chunks lower what the routed part holds, and the peak never lies below static memory") {
  Small small;
  small.mbs = 4;
  small.gbs = 16;
  small.seq = 1024;
  small.routing = "{ lognormal: { sigma: 1.0, seed: 2 } }";
  std::int64_t before = 0;
  for (int chunks : {1, 2, 4, 8}) {
    small.policies = "{ memfine: { rule: fixed, chunks: " + std::to_string(chunks) + " } }";
    const auto plan = plan::make_plan(small.make(), 0, 1);
    std::int64_t routed = 0;
    for (std::int64_t rank = 0; rank < 4; ++rank) {
      const auto memory = memory::replay(plan, rank);
      CHECK(memory.peak.allocated_bytes >= memory.static_bytes);
      routed = std::max(routed, memory.routed_peak_bytes);
    }
    if (before > 0) CHECK(routed < before);
    before = routed;
  }
}

TEST_CASE("a slow replay with a set of live tensors gives the same peak") {
  // The obvious reference: a list of (id, bytes) searched by hand at each op.
  Small small;
  small.model = "tiny-mla";
  small.tp = 2;
  small.routing = "{ lognormal: { sigma: 0.7, seed: 9 } }";
  small.policies = "{ memfine: { rule: fixed, chunks: 2 } }";
  const auto plan = plan::make_plan(small.make(), 0, 1);
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    struct Live {
      std::int64_t microbatch, slot, tensor, bytes;
    };
    std::vector<Live> live;
    std::int64_t peak = 0;
    for (const auto& visit : plan.program_of(rank).visits) {
      const auto& block = plan.blocks[static_cast<std::size_t>(visit.block)];
      for (const auto& op : visit.direction == schedule::Direction::forward ? block.forward : block.backward) {
        for (auto id : op.allocates)
          live.push_back({visit.microbatch, visit.slot, id, aligned(plan.bytes(block.tensors[id].size, visit, rank))});
        std::int64_t sum = 0;
        for (const auto& l : live) sum += l.bytes;
        peak = std::max(peak, sum);
        for (auto id : op.frees)
          for (std::size_t i = 0; i < live.size(); ++i)
            if (live[i].microbatch == visit.microbatch && live[i].slot == visit.slot && live[i].tensor == id) {
              live.erase(live.begin() + static_cast<std::ptrdiff_t>(i));
              break;
            }
      }
    }
    const auto memory = memory::replay(plan, rank);
    CHECK(memory.peak.allocated_bytes == memory.static_bytes + peak);
    std::int64_t highest = 0;
    for (const auto& point : memory::timeline(plan, rank)) highest = std::max(highest, point.allocated_bytes);
    CHECK(highest == memory.peak.allocated_bytes);
  }
}

TEST_CASE("norms on queries and keys keep copies of their inputs and fp32 statistics") {
  // Two layers; T 256, (4 + 2) heads of 16 in bf16, one fp32 figure a head and token.
  auto kept = [](const char* model) {
    Small small;
    small.model = model;
    small.ep = 1;
    small.routing = "";
    small.schedule = "gpipe";
    auto peak = [&](int microbatches) {
      small.gbs = 4 * microbatches;
      return memory::replay(plan::make_plan(small.make(), 0, 1), 0).peak.allocated_bytes;
    };
    return peak(3) - peak(2);
  };
  CHECK(kept("tiny-qknorm") - kept("tiny-dense") == 2 * (aligned(2 * 256 * (4 + 2) * 16) + aligned(4 * 256 * (4 + 2))));
}

TEST_CASE("bf16 gradients are widened for the owned shard in the step") {
  Small small;
  small.optimizer = "{ main_grads_dtype: bf16 }";
  const auto plan = plan::make_plan(small.make(), 0, 1);
  const auto memory = memory::replay(plan, 0);
  const auto p = plan::stage_parameters(*plan.scenario, 0);
  CHECK(memory.phase_peak_bytes[static_cast<std::size_t>(memory::Phase::steady_optimizer_step)] ==
        memory.static_bytes + aligned(4 * (p.dense / 4 + p.experts / 2)));
}

TEST_CASE(
    "virtual stages, context and expert tensor parallelism free what they allocate, and divide what they should") {
  auto peak_of = [](const std::string& layout, const char* model, std::int64_t rank) {
    const std::string text =
        std::string("model: ") + model + "\ncluster: { hardware: h100-sxm, gpus: 8 }\nparallel: " + layout +
        "\ntraining: { micro_batch_size: 1, global_batch_size: 16, seq_length: 1024 }\nrouting: { balanced: true }\n";
    const auto plan = plan::make_plan(moeplan::test::scenario_from(text), 0, 1);
    for (std::int64_t r = 0; r < 8; ++r) CHECK_NOTHROW(memory::replay(plan, r));
    return memory::replay(plan, rank);
  };
  for (const char* layout :
       {"{ pp: 2, vpp: 2, ep: 2 }", "{ tp: 2, cp: 2, ep: 4 }", "{ tp: 2, ep: 2, etp: 2 }", "{ tp: 2, ep: 1, etp: 2 }",
        "{ pp: 4, ep: 2, pipeline_model_parallel_layout: 'Et|t|tt|L' }"})
    peak_of(layout, "tiny-mla", 0);
  // Half the positions a rank: about half the logits, which are most of this small model's activations.
  const auto one = peak_of("{ ep: 2 }", "tiny-moe", 0), two = peak_of("{ cp: 2, ep: 2 }", "tiny-moe", 0);
  const auto logits = [](const memory::RankMemory& m) {
    return m.peak.by_kind[static_cast<std::size_t>(plan::TensorKind::logits_loss)];
  };
  CHECK(2 * logits(two) == logits(one));
}
