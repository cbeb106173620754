#include <doctest/doctest.h>

#include <cstdint>
#include <string>
#include <vector>

#include "support.h"

using namespace moeplan;
using namespace moeplan::scenario;
using namespace moeplan::scenario::testing;

// kSmall: four layers, 8 GPUs, 16 samples of one a microbatch. With pp stages 8 / pp replicas, so 2 pp microbatches.
namespace {
using Layers = std::vector<std::int32_t>;
}

TEST_CASE("zb_h1 takes any number of microbatches, one stage included") {
  for (const char* batch : {"4", "8", "12", "16"})
    CHECK(faults_of(kSmall, {{"ep", "2"}, {"pp", "2"}, {"schedule", "zb_h1"}, {"global_batch_size", batch}}).empty());
  CHECK(faults_of(kSmall, {{"schedule", "zb_h1"}}).empty());
  CHECK(resolve(kSmall, {{"ep", "2"}, {"pp", "2"}, {"schedule", "zb_h1"}}).stages.text() == "Ett|ttL");
  CHECK(holds(refusal(kSmall, {{"ep", "2"}, {"pp", "2"}, {"vpp", "2"}, {"schedule", "zb_h1"}}),
              "zb_h1 does not take 2 virtual stages a rank"));
}

TEST_CASE("a V gives every rank two virtual stages without asking, the first rank the first and the last") {
  for (const char* schedule : {"zb_v", "dualpipe_v"}) {
    const Scenario s = resolve(kSmall, {{"ep", "2"}, {"pp", "2"}, {"schedule", schedule}});
    CHECK(s.stages.text() == "Et|t|t|tL");  // in model order
    CHECK(s.layout.vpp == 2);
    CHECK(s.stages.layers_of(0) == Layers{0, 3});
    CHECK(s.stages.layers_of(1) == Layers{1, 2});
    CHECK(s.stages.embedding_on(0));
    CHECK(s.stages.loss_on(0));
    CHECK_FALSE(s.stages.embedding_on(1));
    CHECK_FALSE(s.stages.loss_on(1));
    CHECK(s.stages.stage_of_layer(2) == 1);
    CHECK(s.stages.stage_of_layer(3) == 0);
    CHECK(s.stages.turns_out(1, 0));
    CHECK(s.stages.turns_in(1, 1));
    CHECK_FALSE(s.stages.turns_out(0, 0));
    CHECK(s.stages.copies() == 1);
  }
}

TEST_CASE("mirrored ranks hold each other's stages") {
  const Scenario s = resolve(kSmall, {{"ep", "2"}, {"pp", "4"}, {"schedule", "dualpipe"}});
  CHECK(s.layout.vpp == 1);
  CHECK(s.stages.text() == "Et|t|t|tL");
  for (const std::int64_t rank : {0, 3}) {
    CHECK(s.stages.layers_of(rank) == Layers{0, 3});
    CHECK(s.stages.embedding_on(rank));
    CHECK(s.stages.loss_on(rank));
  }
  for (const std::int64_t rank : {1, 2}) CHECK(s.stages.layers_of(rank) == Layers{1, 2});
  CHECK(s.stages.chunk(3, 0).layers == Layers{3});  // of microbatches from the first rank
  CHECK(s.stages.chunk(3, 1).layers == Layers{0});  // from the last
  CHECK(s.stages.stage_of_layer(0) == 0);
  CHECK(s.stages.stage_of_layer(0, true) == 3);
  CHECK(s.stages.holds(3, 0));
  CHECK_FALSE(s.stages.holds(2, 0));
  CHECK(s.stages.chunks() == 2);
  CHECK(s.stages.copies() == 2);
}

TEST_CASE("dualpipe needs an even pipeline, and an even number of microbatches, twice the stages or more") {
  // pp 2: four replicas; 16 samples are four microbatches = 2 x 2.
  const auto fault = [](const char* pp, const char* batch) {
    return refusal(kSmall, {{"ep", "2"}, {"pp", pp}, {"schedule", "dualpipe"}, {"global_batch_size", batch}});
  };
  CHECK(fault("2", "16").empty());
  CHECK(fault("2", "24").empty());
  CHECK(holds(fault("2", "8"),
              "training.global_batch_size: dualpipe needs at least 2 x 2 stages = 4 microbatches, got "
              "2"));
  CHECK(
      holds(fault("2", "20"), "dualpipe runs half of the microbatches from each end: expected an even number, got 5"));
  CHECK(fault("4", "16").empty());  // two replicas: eight microbatches
  CHECK(holds(fault("4", "14"), "dualpipe needs at least 2 x 4 stages = 8 microbatches, got 7"));
  CHECK(holds(fault("4", "14"), "expected an even number, got 7"));  // both at once
  CHECK(holds(fault("1", "16"), "dualpipe needs an even number of pipeline stages, got 1"));
}

TEST_CASE("dualpipe_v needs twice as many microbatches as ranks, odd ones too") {
  const auto fault = [](const char* batch) {
    return refusal(kSmall, {{"ep", "2"}, {"pp", "2"}, {"schedule", "dualpipe_v"}, {"global_batch_size", batch}});
  };
  CHECK(fault("16").empty());
  CHECK(fault("20").empty());
  CHECK(holds(fault("12"), "dualpipe_v needs at least 2 x 2 stages = 4 microbatches, got 3"));
}

TEST_CASE("what does not fit a V is refused with the schedule's place") {
  const auto with = [](Settings more) {
    Settings settings = {{"ep", "2"}, {"pp", "2"}, {"schedule", "zb_v"}};
    settings.insert(settings.end(), more.begin(), more.end());
    return refusal(kSmall, settings);
  };
  CHECK(with({{"vpp", "2"}}).empty());
  CHECK(holds(with({{"vpp", "1"}}), "zb_v places two virtual stages on each rank: expected 2, got 1"));
  CHECK(holds(with({{"vpp", "4"}}), "zb_v places two virtual stages on each rank: expected 2, got 4"));
  CHECK(holds(with({{"vpp", "4"}}), "see also"));
  CHECK(with({{"pipeline_model_parallel_layout", "'E|tt|t|tL'"}}).empty());
  CHECK(holds(with({{"pipeline_model_parallel_layout", "'Ett|ttL'"}}),
              "expected 2 x 2 virtual stages, two on each rank, got 2"));
  CHECK(
      holds(with({{"decoder_first_pipeline_num_layers", "2"}}), "zb_v puts the first and the last stage on one rank"));
  CHECK(holds(refusal(kSmall, {{"schedule", "zb_v"}}), "zb_v needs 2 or more pipeline stages, got 1"));
  // Three stages of two do not divide four layers.
  CHECK(holds(refusal(kSmall, {{"ep", "2"}, {"pp", "4"}, {"schedule", "zb_v"}}), "over 8 virtual stages"));
}

TEST_CASE("weight gradients that come later need gradients whole, and steps of their own") {
  for (const char* schedule : {"zb_h1", "zb_v", "dualpipe", "dualpipe_v"}) {
    CAPTURE(schedule);
    const auto with = [&](Settings more) {
      Settings settings = {{"ep", "2"}, {"pp", "2"}, {"schedule", schedule}};
      settings.insert(settings.end(), more.begin(), more.end());
      return refusal(kSmall, settings);
    };
    CHECK(with({{"sharding", "zero1"}}).empty());
    CHECK(with({{"sharding", "ddp"}}).empty());
    CHECK(holds(with({{"sharding", "zero2"}}), "apart from backward: expected ddp or zero1, got zero2"));
    CHECK(holds(with({{"recompute_granularity", "full"}, {"recompute_num_layers", "2"}}), "recomputes single layers"));
    const std::string muon = with({{"optimizer.kind", "muon"}});
    CHECK(holds(muon, "which Muon does not divide: expected adam") == (std::string(schedule) == "dualpipe"));
    const std::string overlap = with({{"overlap_moe_expert_parallel_comm", "true"}});
    if (std::string(schedule).starts_with("zb"))
      CHECK(holds(overlap, "has no forward and backward that take turns"));
    else
      CHECK(overlap.empty());
  }
}
