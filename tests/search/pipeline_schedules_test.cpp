#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "engine/plan_source.h"
#include "engine/step.h"
#include "memory/replay.h"
#include "support/scenarios.h"

// Zero-bubble schedules and DualPipe beside 1F1B: memory and time of whole plans.
using namespace moeplan;
using moeplan::test::Small;
using moeplan::test::staged;

TEST_CASE("activations at the peak: zb_v and dualpipe keep all ranks alike, 1f1b the first rank the most") {
  // tiny-dense has layers of one kind: what a microbatch keeps on a rank is the same everywhere but at the ends.
  const auto peaks = [](const std::string& schedule) {
    Small small;
    small.model = "llama3-70b-12l";
    small.schedule = schedule;
    small.gpus = 6;
    small.pp = 6;
    small.ep = 1;
    small.gbs = 24;
    const auto plan = plan::make_plan(small.make(), 0, 1);
    std::vector<std::int64_t> dense;  // bytes of the layers' activations at each rank's peak
    for (std::int64_t rank = 1; rank < 5; ++rank) {
      const auto memory = memory::replay(plan, rank);
      dense.push_back(memory.peak.by_kind[static_cast<std::size_t>(plan::TensorKind::activations_dense)]);
    }
    return dense;
  };
  const auto plain = peaks("1f1b"), h1 = peaks("zb_h1"), v = peaks("zb_v");
  const auto spread = [](const std::vector<std::int64_t>& list) {
    const auto [low, high] = std::minmax_element(list.begin(), list.end());
    return static_cast<double>(*high - *low) / static_cast<double>(*high);
  };
  CHECK(spread(plain) > 0.4);  // ranks 1 .. 4 of six hold 5, 4, 3, 2 microbatches
  CHECK(spread(h1) < 0.1);     // six everywhere
  CHECK(spread(v) < 0.1);      // twelve halves everywhere
  // 1f1b's first rank holds six; rank 1 five: zb_h1's are never above that by more than what the weights keep.
  CHECK(h1.front() > plain.front());
}

TEST_CASE("with more work in a microbatch than in its hand-over, zb_h1 is faster than 1f1b and dualpipe than both") {
  const auto step = [](const std::string& schedule) {
    Small small = staged(schedule, 4);
    small.seq = 4096;
    return engine::run_step(plan::make_plan(small.make(), 0, 1)).step_s;
  };
  const double plain = step("1f1b");
  CHECK(step("zb_h1") < plain);
  CHECK(step("dualpipe") < plain);
}

TEST_CASE("weight gradients apart go with gradients that are added by themselves, dropout, tied embeddings") {
  for (const char* schedule : {"zb_h1", "zb_v", "dualpipe", "dualpipe_v"}) {
    CAPTURE(schedule);
    Small small = staged(schedule, 2);
    small.optimizer = "{ gradient_accumulation_fusion: false }";
    const auto dropped = std::make_shared<scenario::Scenario>(*small.make());
    dropped->training.hidden_dropout = 0.1;
    for (const auto& s : {small.make(), std::shared_ptr<const scenario::Scenario>(dropped)}) {
      const auto plan = plan::make_plan(s, 0, 1);
      for (std::int64_t rank = 0; rank < 4; ++rank) {
        CHECK(memory::replay(plan, rank).peak.allocated_bytes > 0);  // sound: each tensor once
        // Every op of every visit has its time, weight gradients too.
        const auto clocks = engine::op_clocks(plan, rank);
        const auto& visits = plan.program_of(rank).visits;
        REQUIRE(clocks.size() == visits.size());
        for (std::size_t v = 0; v < visits.size(); ++v)
          CHECK(clocks[v].size() ==
                plan::ops_of(plan.blocks[static_cast<std::size_t>(visits[v].block)], visits[v].direction).size());
      }
    }
  }
  Small tied;
  tied.model = "tiny-dense";
  tied.ep = 1;
  tied.schedule = "zb_h1";
  auto s = std::make_shared<scenario::Scenario>(*tied.make());
  s->model.tied_embeddings = true;
  const auto plan = plan::make_plan(s, 0, 1);
  for (std::int64_t rank = 0; rank < 4; ++rank) CHECK(memory::replay(plan, rank).peak.allocated_bytes > 0);
}

TEST_CASE("transfers between stages that are posted ahead hide under computation, never more than all of them") {
  const auto run = [](const std::string& schedule, int vpp, bool ahead) {
    const std::string text = "model: tiny-mla\ncluster: { hardware: h100-sxm, gpus: 4 }\nparallel: { pp: 2, ep: 2" +
                             std::string(vpp > 1 ? ", vpp: 2" : "") +
                             " }\ntraining: { micro_batch_size: 1, global_batch_size: 16, seq_length: 4096, "
                             "schedule: " +
                             schedule + ", overlap_p2p_comm: " + (ahead ? "true" : "false") +
                             " }\nrouting: { balanced: true }\n";
    return plan::make_plan(test::scenario_from(text), 0, 1);
  };
  for (const char* schedule : {"1f1b", "gpipe", "interleaved", "zb_h1", "zb_v", "dualpipe", "dualpipe_v"}) {
    CAPTURE(schedule);
    const int vpp = std::string(schedule) == "interleaved" ? 2 : 1;
    const auto later = run(schedule, vpp, false), ahead = run(schedule, vpp, true);
    engine::PlanSource a(ahead), b(ahead);
    CHECK(engine::run_max_plus(a).finish_ps == engine::run_events(b).finish_ps);
    const auto before = engine::run_step(later), after = engine::run_step(ahead);
    CHECK(after.mean.exposed_pp_s < before.mean.exposed_pp_s);
    CHECK(after.mean.total() == doctest::Approx(after.step_s).epsilon(1e-9));
    // What arrives early has a buffer of its own beside the microbatch that is computed.
    const std::int64_t received = 4096 * ahead.scenario->model.hidden * 2;
    for (std::int64_t rank = 0; rank < 4; ++rank) {
      const std::int64_t more =
          memory::replay(ahead, rank).peak.allocated_bytes - memory::replay(later, rank).peak.allocated_bytes;
      CHECK(more >= 0);
      CHECK(more <= 2 * received);  // one forward, one backward
    }
  }
}

TEST_CASE("chunks in a pipeline: no slower where sending takes long, at the price of the next chunk's rows") {
  const auto with = [](const std::string& pipelined, int chunks, double* step_s) {
    Small small;
    small.model = "deepseek-v3-4l";
    small.gpus = small.ep = 16;  // two hosts
    small.seq = 4096;
    small.gbs = 16;
    small.policies =
        "{ memfine: { rule: fixed, chunks: " + std::to_string(chunks) + ", pipelined: " + pipelined + " } }";
    const auto plan = plan::make_plan(small.make(), 0, 1);
    *step_s = engine::run_step(plan).step_s;
    return memory::replay(plan, 0).routed_peak_bytes;
  };
  for (int chunks : {2, 4, 8}) {
    CAPTURE(chunks);
    double sequence_s = 0, pipeline_s = 0;
    const std::int64_t sequence = with("false", chunks, &sequence_s), pipeline = with("true", chunks, &pipeline_s);
    CHECK(pipeline_s < sequence_s);
    CHECK(pipeline > sequence);
    CHECK(pipeline < 2 * sequence);  // not a whole chunk more
  }
  double a = 0, b = 0;
  CHECK(with("false", 1, &a) == with("true", 1, &b));  // one chunk has none ahead
  CHECK(a == b);
}
