#include "plan/plan.h"

#include <doctest/doctest.h>

#include "support/scenarios.h"

using namespace moeplan;
using moeplan::test::Small;

TEST_CASE("rows are conserved: every member sends its tokens times top-k, and all that is sent arrives") {
  Small small;
  small.routing = "{ lognormal: { sigma: 0.8, seed: 3 } }";
  for (const std::string policies : {"", "{ memfine: { rule: fixed, chunks: 3 } }"}) {
    small.policies = policies;
    const auto plan = plan::make_plan(small.make(), 0, 1);
    const std::int64_t microbatches = plan.scenario->microbatches();
    CHECK(microbatches == 2);  // 8 samples / (1 x 4 replicas)
    for (std::int64_t mb = 0; mb < microbatches; ++mb)
      for (std::int64_t group = 0; group < plan.groups_per_stage(); ++group) {
        const auto& d = plan.decision(0, mb, group);
        std::int64_t sent = 0, received = 0;
        for (const auto& rows : d.forward_rows) {
          for (std::int64_t member = 0; member < 2; ++member) {
            sent += rows.sent(member);
            received += rows.received(member);
            std::int64_t by_instance = 0;
            for (auto n : rows.rows_on(member)) by_instance += n;
            CHECK(by_instance == rows.received(member));
          }
        }
        CHECK(sent == received);
        CHECK(sent == 2 * 256 * 2);  // two members, 256 tokens, top-2
      }
  }
}

TEST_CASE("the number of threads changes nothing") {
  Small small;
  small.routing = "{ lognormal: { sigma: 0.8, seed: 3 } }";
  small.policies = "{ memfine: { rule: fixed, chunks: 2 }, lrmoe: {} }";
  const auto scenario = small.make();
  const auto one = plan::make_plan(scenario, 0, 1), four = plan::make_plan(scenario, 0, 4);
  REQUIRE(one.decisions.size() == four.decisions.size());
  for (std::size_t i = 0; i < one.decisions.size(); ++i) {
    for (std::size_t c = 0; c < one.decisions[i].forward_rows.size(); ++c)
      CHECK(one.decisions[i].forward_rows[c].matrix == four.decisions[i].forward_rows[c].matrix);
    for (std::size_t c = 0; c < one.decisions[i].backward_rows.size(); ++c)
      CHECK(one.decisions[i].backward_rows[c].matrix == four.decisions[i].backward_rows[c].matrix);
    CHECK(one.decisions[i].retained_score == four.decisions[i].retained_score);
  }
}

TEST_CASE("stages visit their own layers, borders and ends in schedule order") {
  Small small;
  small.model = "tiny-mla";
  small.pp = 2;
  const auto plan = plan::make_plan(small.make(), 0, 1);
  REQUIRE(plan.programs.size() == 2);  // two stages of one expert group each
  const auto names = [&](const plan::Program& program, std::size_t from, std::size_t count) {
    std::vector<std::string> list;
    for (std::size_t i = from; i < from + count; ++i) {
      const auto& v = program.visits[i];
      list.push_back(plan.blocks[static_cast<std::size_t>(v.block)].name +
                     (v.layer >= 0 ? " " + std::to_string(v.layer) : ""));
    }
    return list;
  };
  CHECK(names(plan.programs[0], 0, 4) ==
        std::vector<std::string>{"embedding", "dense layer 0", "MoE layer 1", "pipeline send"});
  CHECK(names(plan.programs[1], 0, 4) ==
        std::vector<std::string>{"pipeline receive", "MoE layer 2", "MoE layer 3", "loss"});
  // Stage 1 turns round at once: backward of microbatch 0, in reverse.
  CHECK(names(plan.programs[1], 4, 4) ==
        std::vector<std::string>{"loss", "MoE layer 3", "MoE layer 2", "pipeline receive"});
  CHECK(plan.programs[1].visits[1].moe_layer == 1);  // layer 2 is the second MoE layer
  CHECK(plan.blocks[static_cast<std::size_t>(plan.programs[0].visits.back().block)].name == "optimizer");
}

TEST_CASE("an adaptive rule may give the layers of one step different blocks, the same for a whole expert group") {
  Small small;
  small.routing = "{ lognormal: { sigma: 1.0, seed: 5 } }";
  small.model = "tiny-mla";
  // 256 tokens x 2 x 2 members = 1024 copies a group; a cap of 600 rows needs chunks where a member gets more.
  // capacity = static + kept + 600 rows: given static 1 GB, so that planning_capacity alone decides.
  small.memory = "{ given_static_bytes: 1 GB }";
  small.policies = "{ memfine: { rule: adaptive, alpha: 1.0, planning_capacity: 1004000000 B, bytes_per_row: 384 B } }";
  const auto plan = plan::make_plan(small.make(), 0, 1);
  for (const auto& decision : plan.decisions) {
    const double rows = decision.max_received;
    CHECK(decision.chunks ==
          policy::adaptive_chunks(rows, plan.memfine_max_rows[0], std::vector<std::int64_t>{1, 2, 4, 8}));
  }
}

TEST_CASE("virtual stages, context and expert tensor parallelism, MTP: programs are sound on every rank") {
  for (const char* layout :
       {"{ pp: 2, vpp: 2, ep: 2 }", "{ tp: 2, cp: 2, ep: 4 }", "{ tp: 2, ep: 2, etp: 2 }", "{ tp: 2, ep: 1, etp: 2 }",
        "{ cp: 2, pp: 2, ep: 2 }", "{ pp: 4, ep: 2, pipeline_model_parallel_layout: 'Et|t|tt|L' }"}) {
    CAPTURE(layout);
    std::string text = "model: tiny-mla\ncluster: { hardware: h100-sxm, gpus: 8 }\nparallel: " + std::string(layout) +
                       "\ntraining: { micro_batch_size: 1, global_batch_size: 16, seq_length: 256 }\nrouting: { "
                       "lognormal: { sigma: 0.8 } }\n";
    const auto scenario = moeplan::test::scenario_from(text);
    const auto plan = plan::make_plan(scenario, 0, 1);
    const auto& layout_of = scenario->layout;
    const std::int64_t per_rank = 256 / (layout_of.tp * layout_of.cp) * 2;  // tokens of a rank times top-k
    for (const auto& decision : plan.decisions) {
      std::int64_t received = 0;
      for (std::int64_t member = 0; member < layout_of.ep; ++member) {
        CHECK(decision.forward_rows[0].sent(member) == per_rank * layout_of.etp);  // peers count as one member
        received += decision.forward_rows[0].received(member);
      }
      CHECK(received == per_rank * layout_of.etp * layout_of.ep);
    }
  }
}
