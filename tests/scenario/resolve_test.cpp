#include <doctest/doctest.h>

#include "support.h"

using namespace moeplan;
using namespace moeplan::scenario;
using namespace moeplan::scenario::testing;

TEST_CASE("a small scenario resolves to plain values in base units") {
  const Scenario s = resolve(kSmall, {{"hardware.device.memory_capacity", "80 GiB"}});
  CHECK(s.name == "s.yaml");
  CHECK(s.model.id == "tiny-moe");
  CHECK(s.hardware.id == "h100-sxm");
  CHECK(s.layout.world == 8);
  CHECK(s.layout.ep == 4);
  CHECK(s.layout.dp() == 8);
  CHECK(s.microbatches() == 2);  // 16 / (1 x 8)
  CHECK(s.stages.most_layers() == 4);
  CHECK(s.dispatch.kind == scenario::Dispatcher::alltoall);
  REQUIRE(s.policies.memfine);
  CHECK(s.policies.memfine->rule == policy::MemfineSettings::Rule::fixed);
  CHECK(s.policies.memfine->chunks == 4);
  CHECK_FALSE(s.policies.lrmoe);
  CHECK(s.capacity_bytes() == 85899345920);  // 80 x 2^30
  CHECK(s.usable_bytes() == 42949672960);    // half of it
  CHECK(s.routing_label == "balanced");
  CHECK(s.seed == 1);
  CHECK(s.training.iterations == 1);
}

TEST_CASE("usable bytes are rounded down") {
  // 1001 bytes x 0.5 = 500.5
  CHECK(resolve(kSmall, {{"hardware.device.memory_capacity", "1001 B"}}).usable_bytes() == 500);
}

TEST_CASE("loads have the shape of the step that the scenario describes") {
  const Scenario s = resolve();
  const routing::StepShape& shape = s.loads->shape();
  CHECK(shape.seq_length == 128);
  CHECK(shape.micro_batch_size == 1);
  CHECK(shape.data_parallel == 8);
  CHECK(shape.microbatches == 2);
  CHECK(shape.moe_layers == 3);
  CHECK(shape.experts == 8);
  CHECK(shape.top_k == 2);
}

TEST_CASE("defaults that matter are listed when nothing states them, and not when something does") {
  const Scenario bare = resolve(small_with("memory: { usable_fraction: 0.5 }\n", ""));
  CHECK(bare.memory.usable_fraction == 0.94);
  CHECK(holds(bare.assumptions, "usable_fraction is not stated: 0.94"));
  CHECK(holds(bare.assumptions, "precision is not stated: bf16"));
  CHECK(holds(bare.assumptions, "sharding is not stated: zero1"));
  CHECK(holds(bare.assumptions, "types of the optimizer that are not stated: fp32"));
  const Scenario stated = resolve(kSmall, {{"precision", "bf16"},
                                           {"optimizer",
                                            "{ sharding: ddp, main_grads_dtype: fp32, exp_avg_dtype: fp32, "
                                            "exp_avg_sq_dtype: fp32, main_params_dtype: fp32 }"}});
  CHECK(stated.assumptions.empty());
}

TEST_CASE("expandable segments are off unless stated, but on under torchtitan, whose loss is not compiled") {
  CHECK(resolve(kSmall, {{"expandable_segments", "true"}}).memory.expandable_segments);
  CHECK_FALSE(resolve(kSmall, {}).memory.expandable_segments);
  const std::pair<std::string, std::string> titan{"framework", "torchtitan"};
  const Scenario usual = resolve(kSmall, {titan});
  CHECK(usual.memory.expandable_segments);
  CHECK_FALSE(usual.training.fused_cross_entropy);
  CHECK(holds(usual.assumptions, "expandable_segments is not stated: true"));
  CHECK(holds(usual.assumptions, "cross_entropy_loss_fusion is not stated: false"));
  const Scenario stated =
      resolve(kSmall, {titan, {"expandable_segments", "false"}, {"cross_entropy_loss_fusion", "true"}});
  CHECK_FALSE(stated.memory.expandable_segments);
  CHECK(stated.training.fused_cross_entropy);
  CHECK(holds(stated.assumptions, "training.compile is not stated: false"));
  const Scenario compiled = resolve(kSmall, {titan, {"training.compile", "true"}});
  CHECK(compiled.training.fused_cross_entropy);
  CHECK_FALSE(holds(compiled.assumptions, "cross_entropy_loss_fusion"));
}

TEST_CASE("transfers between stages are posted ahead where Megatron does: with virtual stages") {
  const auto ahead = [](const std::string& parallel, const std::string& training = "") {
    return resolve("model: qwen3-30b-a3b\ncluster: { hardware: h100-sxm, gpus: 8 }\nparallel: " + parallel +
                   "\ntraining: { mbs: 1, gbs: 8, seq: 256" + training + " }\nrouting: { balanced: true }\n")
        .training.overlap_p2p_comm;
  };
  CHECK(ahead("{ pp: 2, vpp: 2 }"));
  CHECK(ahead("{ pp: 2, pipeline_model_parallel_layout: 'Et*12|t*12|t*12|t*12L' }"));
  CHECK_FALSE(ahead("{ pp: 2 }", ", schedule: zb_v"));
  CHECK_FALSE(ahead("{ pp: 2 }"));
  CHECK_FALSE(ahead("{ pp: 2, vpp: 2 }", ", overlap_p2p_comm: false"));
  CHECK(ahead("{ pp: 2 }", ", overlap_p2p_comm: true"));
  CHECK_FALSE(ahead("{ pp: 2, vpp: 2 }", ", framework: torchtitan"));
}

TEST_CASE("CUBLAS_WORKSPACE_CONFIG becomes bytes, or a fault that shows its form") {
  const auto bytes = [](const char* text) {
    return resolve(kSmall, {{"memory.cublas_workspace_config", text}}).memory.cublas_workspace_bytes;
  };
  CHECK_FALSE(resolve(kSmall, {}).memory.cublas_workspace_bytes);
  CHECK(bytes("':4096:8'") == 8 * 4096 * 1024);
  CHECK(bytes("':4096:2:16:8'") == (2 * 4096 + 8 * 16) * 1024);  // 8.125 MiB: the default before Hopper
  CHECK(bytes("':0:0'") == 0);
  for (const char* wrong : {"4096", "':4096'", "':4096:'", "':4096:8:'", "'4096:8'", "':-1:8'", "':a:8'",
                            "':1073741824:2'", "':99999999999999999999:1'"})
    CHECK_THROWS_WITH_AS(bytes(wrong), doctest::Contains("expected buffers as :KIB:COUNT"), base::Error);
}

TEST_CASE("types of the optimizer become bytes an element") {
  const Scenario s = resolve(kSmall, {{"main_grads_dtype", "bf16"},
                                      {"exp_avg_dtype", "fp8"},
                                      {"exp_avg_sq_dtype", "fp16"},
                                      {"main_params_dtype", "fp16"}});
  CHECK(s.optimizer.main_grad_bytes == 2);
  CHECK(s.optimizer.exp_avg_bytes == 1);
  CHECK(s.optimizer.exp_avg_sq_bytes == 2);
  CHECK(s.optimizer.master_bytes == 2);
  CHECK(s.optimizer.shards_states());
  CHECK(s.warnings.empty());
  const Scenario replicated = resolve(kSmall, {{"sharding", "ddp"}, {"exp_avg_dtype", "bf16"}});
  CHECK_FALSE(replicated.optimizer.shards_states());
  CHECK(holds(replicated.warnings, "only with its distributed optimizer"));
}

TEST_CASE("memory settings are read") {
  const Scenario s = resolve(kSmall, {{"given_static_bytes", "43.0 GB"}, {"accounting", "closed_form"}});
  CHECK(s.memory.given_static_bytes == 43'000'000'000);
  CHECK(s.memory.accounting == Accounting::closed_form);
  CHECK_FALSE(resolve().memory.given_static_bytes);
}

TEST_CASE("selective recompute without modules takes Megatron's default") {
  const Scenario s = resolve(kSmall, {{"recompute_granularity", "selective"}});
  CHECK(s.recompute.granularity == RecomputeGranularity::selective);
  CHECK(s.recompute.modules == std::set<RecomputeModule>{RecomputeModule::core_attn});
  CHECK(holds(s.assumptions, "core_attn, Megatron's default"));
}

TEST_CASE("selective recompute holds exactly the modules that are listed") {
  const Scenario s =
      resolve(kSmall, {{"recompute_granularity", "selective"}, {"recompute_modules", "[moe_act, layernorm]"}});
  CHECK(s.recompute.modules == std::set<RecomputeModule>{RecomputeModule::layernorm, RecomputeModule::moe_act});
}

TEST_CASE("MemFine by layer turns full recompute on where no granularity is stated, and says so") {
  const Scenario s = resolve(kSmall, {{"memfine.recompute", "layer"}});
  CHECK(s.recompute.granularity == RecomputeGranularity::full);
  CHECK(holds(s.assumptions, "recompute_granularity is not stated: full"));
  CHECK(resolve().recompute.granularity == RecomputeGranularity::none);
}

TEST_CASE("a dense model needs no routing") {
  const std::string text = R"(model: tiny-dense
cluster: { hardware: h100-sxm, gpus: 8 }
training: { micro_batch_size: 1, global_batch_size: 8, seq_length: 128 }
)";
  const Scenario s = resolve(text);
  CHECK(s.routing_label == "none");
  CHECK(s.loads != nullptr);
  CHECK(resolve(text + "routing: { balanced: true }\n").routing_label == "none");
}

TEST_CASE("tensor parallelism states what it takes for granted") {
  const Scenario s = resolve(kSmall, {{"tp", "2"}, {"gbs", "4"}});
  CHECK(s.layout.dp() == 4);
  CHECK(s.layout.etp == 1);
  CHECK(holds(s.assumptions, "sequence_parallel is not stated: on"));
  CHECK(holds(s.assumptions, "Megatron takes tensor_model_parallel_size"));
  const Scenario stated = resolve(kSmall, {{"tp", "2"}, {"gbs", "4"}, {"etp", "1"}, {"sp", "true"}});
  CHECK_FALSE(holds(stated.assumptions, "sequence_parallel"));
  CHECK_FALSE(holds(stated.assumptions, "expert_tensor_parallel_size"));
}

TEST_CASE("a tensor-parallel group larger than a node is a warning") {
  const Settings wide = {{"tp", "4"}, {"gbs", "2"}, {"hardware.network.gpus_per_node", "2"}};
  CHECK(holds(resolve(kSmall, wide).warnings, "tensor_model_parallel_size 4 is larger than a node of 2 GPUs"));
  const Settings fits = {{"tp", "4"}, {"gbs", "2"}, {"hardware.network.gpus_per_node", "4"}};
  CHECK(resolve(kSmall, fits).warnings.empty());
}

TEST_CASE("settings of the rule that is not taken have no effect, and a warning says so") {
  const std::string fixed = small_with("{ rule: fixed, chunks: 4 }", "{ rule: fixed, chunks: 4, alpha: 0.8 }");
  CHECK(holds(resolve(fixed).warnings, "moe.policies.memfine.alpha has no effect under the fixed rule"));
  const std::string adaptive = small_with("rule: fixed, chunks: 4", "rule: adaptive, chunks: 4");
  CHECK(holds(resolve(adaptive).warnings, "moe.policies.memfine.chunks has no effect under the adaptive rule"));
}

TEST_CASE("all settings of the policies are read") {
  const std::string text = small_with(
      "memfine: { rule: fixed, chunks: 4 }",
      "memfine: { rule: adaptive, bins: [2, 6], alpha: 0.8, planning_capacity: 64 GB, bytes_per_row: 100 kB }, "
      "lrmoe: { tau: 1.5, min_rows: 64, min_retained: 0.25, score_sigma: 0.1, mode: A, seed: 7, replicas: greedy, "
      "max_instances: 3 }, "
      "capacity: { factor: 1.25, pad: true, drop_policy: position }");
  const Scenario s = resolve(text);
  REQUIRE(s.policies.memfine);
  CHECK(s.policies.memfine->bins == std::vector<std::int64_t>{2, 6});
  CHECK(s.policies.memfine->alpha == 0.8);
  CHECK(s.policies.memfine->planning_capacity_bytes == 64e9);
  CHECK(s.policies.memfine->bytes_per_row == 100e3);
  REQUIRE(s.policies.lrmoe);
  CHECK(s.policies.lrmoe->tau == 1.5);
  CHECK(s.policies.lrmoe->min_rows == 64);
  CHECK(s.policies.lrmoe->min_retained == 0.25);
  CHECK(s.policies.lrmoe->score_sigma == 0.1);
  CHECK(s.policies.lrmoe->seed == 7);
  CHECK(s.policies.lrmoe->mode == policy::LrmoeSettings::Mode::kept);
  CHECK(s.policies.lrmoe->replicas == policy::LrmoeSettings::Replicas::greedy);
  CHECK(s.policies.lrmoe->max_instances == 3);
  REQUIRE(s.policies.capacity);
  CHECK(s.policies.capacity->factor == 1.25);
  CHECK(s.policies.capacity->pad);
  CHECK(s.policies.capacity->drop_policy == policy::CapacitySettings::DropPolicy::position);
  CHECK(holds(s.warnings, "moe.policies.lrmoe.score_sigma has no effect in mode A"));
}

TEST_CASE("log-normal routing takes its own seed") {
  const Scenario s = resolve(small_with("balanced: true", "lognormal: { sigma: 0.4, seed: 9 }"));
  CHECK(s.routing_label == "lognormal");
  CHECK(s.seed == 9);
}
