#include <doctest/doctest.h>

#include <algorithm>

#include "support.h"

using namespace moeplan;
using namespace moeplan::runs;
using namespace moeplan::runs::testing;

namespace {

bool assumes(const ResolvedRun& run, const std::string& part) {
  return std::any_of(run.assumptions.begin(), run.assumptions.end(),
                     [&](const std::string& line) { return holds(line, part); });
}

}  // namespace

TEST_CASE("a row whose cells are all stated becomes a scenario without assumptions") {
  const ResolvedRun run = resolved();
  CHECK(run.reason == "");
  REQUIRE(run.status == RunStatus::ok);
  CHECK(run.assumptions.empty());
  CHECK(run.scenario->model.id == "qwen3-30b-a3b");
  CHECK(run.scenario->layout.ep == 16);
  CHECK(run.scenario->training.global_batch_size == 64);
  CHECK(run.scenario->memory.usable_fraction == 1.0);
  CHECK(run.scenario->routing_label == "balanced");
}

TEST_CASE("empty cells take the framework's default, and each is listed") {
  const ResolvedRun run = resolved({{"tp", ""},
                                    {"etp", ""},
                                    {"mbs", ""},
                                    {"recompute", ""},
                                    {"sharding", ""},
                                    {"dispatcher", ""},
                                    {"routing", ""},
                                    {"precision", ""},
                                    {"framework", "other"}});
  REQUIRE(run.status == RunStatus::ok);
  for (const char* line : {"tp: 1", "etp: 1", "mbs: 1", "recompute: none", "sharding: zero1", "dispatcher: alltoall",
                           "routing: balanced", "precision: bf16", "framework 'other': simulated as megatron"}) {
    CAPTURE(line);
    CHECK(assumes(run, line));
    CHECK(holds(run.yaml, std::string("#   ") + line));
  }
}

TEST_CASE("layers that do not divide: embedding and loss count as one each, or a layout string is missing") {
  // 94 layers over 4 x 12 stages: 96 / 48 = 2.
  const std::map<std::string, std::string> cells = {
      {"model", "qwen3-235b-a22b"}, {"gpus", "256"}, {"pp", "4"}, {"ep", "32"}, {"gbs", "1024"}};
  auto with = [&](const std::string& vpp) {
    auto changed = cells;
    changed["vpp"] = vpp;
    return resolved(changed);
  };
  const ResolvedRun even = with("12");
  CHECK(even.reason == "");
  CHECK(assumes(even, "94 layers over 48 stages: embedding and loss count as one layer each"));
  CHECK(even.scenario->stages.layers_of(0).size() == 23);  // one of its 24 is the embedding
  const ResolvedRun odd = with("5");
  CHECK(odd.status == RunStatus::skipped);
  CHECK(holds(odd.reason, "pp_layout is not stated, and neither 94 layers nor 96"));
}

TEST_CASE("natural and dropped routing are log-normal, dropping with a capacity: padding is in the notes") {
  const ResolvedRun natural = resolved({{"routing", "natural"}});
  CHECK(natural.scenario->routing_label == "lognormal");
  CHECK(assumes(natural, "sigma 0.35"));
  CHECK_FALSE(natural.scenario->policies.capacity.has_value());
  const ResolvedRun drop = resolved({{"routing", "drop"}});
  CHECK(assumes(drop, "capacity_factor: 1"));
  REQUIRE(drop.scenario->policies.capacity.has_value());
  CHECK_FALSE(drop.scenario->policies.capacity->pad);
  const ResolvedRun padded =
      resolved({{"capacity_factor", "1.25"}, {"notes", "capacity factor 1, padded to capacity"}});
  CHECK(padded.scenario->policies.capacity->factor == 1.25);
  CHECK(padded.scenario->policies.capacity->pad);
}

TEST_CASE("numbers that cannot be are errors that name the cells: what is left out is a skip") {
  const ResolvedRun ranks = resolved({{"pp", "3"}, {"gpus", "16"}});
  CHECK(ranks.status == RunStatus::error);
  CHECK(
      holds(ranks.reason, "tp: tensor_model_parallel_size x context_parallel_size x pipeline_model_parallel_size = "));
  CHECK(holds(ranks.reason, "(see gpus)"));
  const ResolvedRun batch = resolved({{"gbs", "65"}});
  CHECK(batch.status == RunStatus::error);
  CHECK(holds(batch.reason, "gbs: "));
  const ResolvedRun model = resolved({{"model", "qwen3-30b-a3"}});
  CHECK(model.status == RunStatus::error);
  CHECK(model.reason == "model: unknown model 'qwen3-30b-a3' (did you mean 'qwen3-30b-a3b'?)");
  const ResolvedRun gpu = resolved({{"gpu", "h100"}});
  CHECK(gpu.status == RunStatus::error);
  CHECK(holds(gpu.reason, "gpu: unknown hardware profile 'h100'"));
  const ResolvedRun text = resolved({{"gpus", "many"}});
  CHECK(text.status == RunStatus::error);
  CHECK(text.reason == "gpus: expected a whole number >= 1, got 'many'");
  const ResolvedRun muon = resolved({{"optimizer", "sgd"}});
  CHECK(muon.status == RunStatus::skipped);
  CHECK(holds(muon.reason, "optimizer: "));
}

TEST_CASE("muon with divided states is dealt out, else it is on every rank") {
  const ResolvedRun dealt = resolved({{"optimizer", "muon"}, {"sharding", "zero1"}});
  CHECK(dealt.reason == "");
  CHECK(dealt.scenario->optimizer.kind == scenario::OptimizerKind::dist_muon);
  const ResolvedRun whole = resolved({{"optimizer", "muon"}, {"sharding", "ddp"}});
  CHECK(whole.scenario->optimizer.kind == scenario::OptimizerKind::muon);
}

TEST_CASE("recipes of Megatron-Bridge keep parameters in fp8 under the recipes that do") {
  const auto gathers = [](const std::string& precision, const std::string& source) {
    return resolved({{"precision", precision}, {"source", source}}).scenario->training.fp8_param_gather;
  };
  CHECK(gathers("fp8_tensorwise", "NVIDIA-NeMo/Megatron-Bridge docs"));
  CHECK_FALSE(gathers("fp8_blockwise", "NVIDIA-NeMo/Megatron-Bridge docs"));
  CHECK_FALSE(gathers("bf16", "NVIDIA-NeMo/Megatron-Bridge docs"));
  CHECK_FALSE(gathers("fp8_tensorwise", "somebody else"));
}

TEST_CASE("Megatron's functional tests: what their files set and no column has") {
  const std::map<std::string, std::string> gpt2 = {
      {"model", "arch"}, {"arch", "L=12 h=512 heads=8 E=8 topk=2 maxpos=1024"}, {"seq_len", "1024"}, {"ep", "8"}};
  const std::string tests = "NVIDIA/Megatron-LM tests/functional_tests/test_cases/moe/";
  const auto with = [&](const std::string& test) {
    std::map<std::string, std::string> cells = gpt2;
    cells["source"] = tests + test;
    return resolved(cells);
  };
  const ResolvedRun plain = with("gpt3_mcore_te_tp2_pp1_te_8experts_etp1_ep4 golden");
  CHECK(plain.reason == "");
  CHECK_FALSE(plain.scenario->optimizer.gradient_accumulation_fusion);
  CHECK_FALSE(plain.scenario->training.bias_activation_fusion);
  CHECK(plain.scenario->training.hidden_dropout == 0.1);
  CHECK(plain.scenario->dispatch.grouped_gemm);
  CHECK_FALSE(with("gpt3_mcore_te_tp2_pp2_te_4experts2parallel golden").scenario->dispatch.grouped_gemm);
  CHECK(with("gpt3_moe_mcore_te_scoped_cudagraph golden").scenario->training.hidden_dropout == 0);
  const ResolvedRun elsewhere = resolved(gpt2);
  CHECK(elsewhere.scenario->optimizer.gradient_accumulation_fusion);
  CHECK(elsewhere.scenario->training.hidden_dropout == 0);
  const ResolvedRun proxy =
      resolved({{"precision", "fp8_tensorwise"}, {"source", tests + "deepseek_proxy_fsdp_ep2_fsdp2 golden"}});
  CHECK(proxy.status == RunStatus::skipped);
  CHECK(holds(proxy.reason, "no --bf16"));
}

TEST_CASE("a cumulative peak of one of Megatron's tests is that of several draws of the routing") {
  const std::string tests = "NVIDIA/Megatron-LM tests/functional_tests/test_cases/moe/gpt3 golden";
  const auto with = [&](const std::string& scope, const std::string& source, const std::string& routing) {
    return resolved({{"memory_scope", scope}, {"source", source}, {"routing", routing}});
  };
  const ResolvedRun run = with("torch allocated peak, last rank, cumulative", tests, "natural");
  CHECK(run.scenario->training.iterations == 4);
  CHECK(run.scenario->memory.cublas_workspace_bytes == 8 * 4096 * 1024);
  CHECK(assumes(run, "drawn anew in each of 4 iterations"));
  CHECK(with("torch allocated peak, last rank", tests, "natural").scenario->training.iterations == 1);
  CHECK(with("cumulative", "somebody else", "natural").scenario->training.iterations == 1);
  CHECK(with("cumulative", tests, "balanced").scenario->training.iterations == 1);
}

TEST_CASE("torchtitan divides over context-parallel ranks too, and compiles the loss with float8 from 2025 on") {
  const auto with = [](std::map<std::string, std::string> more) {
    more.insert({{"framework", "torchtitan"},
                 {"sharding", "fsdp2"},
                 {"model", "llama3.1-8b"},
                 {"routing", "dense"},
                 {"dispatcher", "none"},
                 {"ep", ""},
                 {"gpus", "8"},
                 {"gbs", "8"}});
    return resolved(more);
  };
  CHECK(with({{"cp", "2"}, {"shard_group", "4"}}).scenario->optimizer.shard_group == 0);  // 4 x 2: the whole group
  CHECK(with({{"cp", "2"}, {"shard_group", "2"}}).scenario->optimizer.shard_group == 4);
  CHECK(with({{"shard_group", "4"}}).scenario->optimizer.shard_group == 4);
  const auto compiled = [&](const std::string& release, const std::string& precision) {
    return with({{"release", release}, {"precision", precision}}).scenario->training.fused_cross_entropy;
  };
  CHECK(compiled("2025-06", "fp8_tensorwise"));
  CHECK_FALSE(compiled("2024-12", "fp8_tensorwise"));
  CHECK_FALSE(compiled("2025-06", "bf16"));
  // Modules: float8 needs the compiler; norms were operators until the middle of 2025.
  const auto modules = [&](const std::string& release, const std::string& precision) {
    const auto& training = with({{"release", release}, {"precision", precision}}).scenario->training;
    return std::pair(training.compile, training.rms_norm_fusion);
  };
  CHECK(modules("2024-12", "fp8_tensorwise") == std::pair(true, true));
  CHECK(modules("2025-06", "bf16") == std::pair(false, false));
  CHECK(modules("2025-07", "bf16") == std::pair(false, true));
}

TEST_CASE("cells that contradict each other are errors") {
  CHECK(holds(resolved({{"dispatcher", "none"}}).reason, "dispatcher: a model with experts has one"));
  CHECK(holds(resolved({{"routing", "dense"}}).reason, "routing: a model with experts routes"));
  CHECK(holds(resolved({{"recompute_modules", "moe_act"}}).reason, "recompute_modules: modules belong to selective"));
  CHECK(holds(resolved({{"recompute", "full"}, {"recompute_modules", "moe"}}).reason,
              "recompute_modules: full recomputation is uniform or block"));
  const std::map<std::string, std::string> dense = {{"model", "llama3-8b"}, {"routing", "dense"}};
  auto with = [&](std::map<std::string, std::string> more) {
    more.insert(dense.begin(), dense.end());
    return resolved(more).reason;
  };
  CHECK(with({{"ep", ""}, {"dispatcher", "none"}}) == "");
  CHECK(with({{"ep", "1"}, {"dispatcher", ""}}) == "");
  CHECK(holds(with({{"ep", "8"}, {"dispatcher", "none"}}), "ep: a model without experts"));
  CHECK(holds(with({{"ep", "1"}, {"dispatcher", "deepep"}}), "dispatcher: a model without experts"));
}

TEST_CASE("arch cuts a model: the first layers are dense, the others have experts") {
  const ResolvedRun run =
      resolved({{"model", "deepseek-v3-no-mtp"}, {"arch", "layers=4 dense_layers=1"}, {"gpus", "8"}, {"ep", "8"}});
  CHECK(run.reason == "");
  CHECK(run.scenario->model.id == "deepseek-v3-no-mtp-4l");
  CHECK(run.scenario->model.layer_count() == 4);
  CHECK(run.scenario->model.moe_layer_count() == 3);
  CHECK(run.scenario->model.layers[0] == model::LayerKind::dense);
  CHECK(run.scenario->model.hidden == 7168);
  const auto wrong = [](const char* arch) { return resolved({{"model", "llama3-8b"}, {"arch", arch}}).reason; };
  CHECK(holds(wrong("layers=4 dense_layers=5"), "arch: expected at most"));
  CHECK(holds(wrong("layers=4 dense_layers=1"), "arch: 'llama3-8b' has no experts"));
  CHECK(holds(wrong("layer=4"), "arch: unknown word 'layer' (did you mean 'layers'?)"));
  CHECK(holds(wrong("layers=four"), "arch: layers: expected a whole number"));
}

TEST_CASE("arch gives a whole shape in Megatron's words: GPT-2 where nothing else is said") {
  const std::map<std::string, std::string> cells = {{"model", "arch"}, {"gpus", "8"}, {"ep", "4"},        {"tp", "2"},
                                                    {"gbs", "32"},     {"mbs", "4"},  {"seq_len", "1024"}};
  const auto with = [&](const std::string& arch) {
    auto changed = cells;
    changed["arch"] = arch;
    return resolved(changed);
  };
  const ResolvedRun gpt2 = with("L=12 h=512 heads=8 E=8 topk=2 maxpos=1024");
  REQUIRE(gpt2.reason == "");
  const model::Architecture& arch = gpt2.scenario->model;
  CHECK(arch.layer_count() == 12);
  CHECK(arch.moe_layer_count() == 12);
  CHECK(arch.moe.ffn == 4 * 512);  // experts are as wide as the MLP that they replace
  CHECK(arch.attention.head_dim == 64);
  CHECK(arch.attention.kv_heads == 8);
  CHECK(arch.learned_positions == 1024);
  CHECK(arch.tied_embeddings);
  CHECK(arch.layer_norm_bias);
  CHECK(arch.mlp == model::MlpKind::gelu);
  CHECK(arch.vocab == 50257);
  CHECK(arch.vocab_divisor == 128);
  CHECK_FALSE(gpt2.scenario->training.fused_cross_entropy);

  const ResolvedRun mla = with(
      "L=4 h=1024 ffn=4096 heads=32 hd=128 E=32 topk=4 moe_ffn=1024 shared=1024 moe_freq=([0]*1+[1]*3) mtp=1 "
      "kv_lora=512 q_lora=1536 maxpos=4096 vocab_div=3232 swiglu multi-latent-attention "
      "untie-embeddings-and-output-weights");
  REQUIRE(mla.reason == "");
  const model::Architecture& deep = mla.scenario->model;
  CHECK(deep.attention.kind == model::AttentionKind::mla);
  CHECK(deep.attention.q_lora_rank == 1536);
  CHECK(deep.attention.qk_dim() == 128 + 64);
  CHECK(deep.moe_layer_count() == 3);
  CHECK(deep.dense_ffn == 4096);
  CHECK(deep.moe.shared_ffn == 1024);
  CHECK(deep.mtp_layers == 1);
  CHECK(deep.learned_positions == 0);
  CHECK_FALSE(deep.tied_embeddings);
  CHECK(deep.vocab_divisor == 3232);
  CHECK(mla.scenario->training.fused_cross_entropy);

  CHECK(holds(with("L=12 h=512 E=8").reason, "arch: 'heads' is not stated"));
  CHECK(holds(with("L=2 h=512 heads=8 E=8 moe_freq=([1]*3)").reason, "arch: moe_freq: expected 2 entries"));
  CHECK(holds(with("L=2 h=512 heads=8 topk=2").reason, "arch: words of experts without their number"));
  CHECK(with("L=2 h=512 heads=8 E=8 bias").status == RunStatus::error);
}

TEST_CASE("a row's schedule is the scenario's, and what it cannot be is a fault of its cell") {
  // 16 GPUs in two stages of ep 8: eight replicas, 64 samples, eight microbatches.
  const auto with = [](const std::string& schedule, const std::string& gbs) {
    return resolved({{"pp", "2"}, {"ep", "8"}, {"schedule", schedule}, {"gbs", gbs}});
  };
  CHECK(with("", "64").scenario->training.schedule == "1f1b");
  CHECK(with("dualpipe", "64").scenario->training.schedule == "dualpipe");
  CHECK(with("zb_v", "64").scenario->stages.vpp() == 2);
  const ResolvedRun few = with("dualpipe", "16");  // two microbatches
  CHECK(few.status == RunStatus::error);
  CHECK(holds(few.reason, "dualpipe needs at least 2 x 2 stages = 4 microbatches, got 2"));
  const ResolvedRun unknown = with("dualpipes", "64");
  CHECK(unknown.status == RunStatus::error);
  CHECK(holds(unknown.reason, "dualpipe"));
}

TEST_CASE("settings of a row reach the scenario's keys") {
  const std::string yaml = scenario_of(row({{"precision", "mxfp8"},
                                            {"cuda_graph", "transformer_engine"},
                                            {"cuda_graph_scope", "attn moe_router"},
                                            {"tp_comm_overlap", "on"},
                                            {"grad_overlap", "on"},
                                            {"grad_reduce_dtype", "bf16"},
                                            {"moments_dtype", "bf16"},
                                            {"dispatcher", "hybridep"},
                                            {"dispatcher_sms", "32"},
                                            {"ep_overlap", "on"},
                                            {"delayed_wgrad", "on"},
                                            {"permute_fusion", "off"},
                                            {"paged_stash", "on"},
                                            {"capacity_factor", "1.5"},
                                            {"recompute", "full"},
                                            {"recompute_modules", "block"},
                                            {"recompute_layers", "5"},
                                            {"offload_modules", "moe_act"}}),
                                       {})
                               .yaml;
  CHECK(holds(yaml,
              "precision: mxfp8, cuda_graph_impl: transformer_engine, cuda_graph_scope: [attn, moe_router], "
              "tp_comm_overlap: true, overlap_grad_reduce: true, overlap_param_gather: true }"));
  CHECK(holds(yaml, "optimizer: { exp_avg_dtype: bf16, exp_avg_sq_dtype: bf16, grad_reduce_dtype: bf16 }"));
  CHECK(holds(yaml,
              "memory: { recompute_granularity: full, recompute_method: block, recompute_num_layers: 5, "
              "offload_modules: [moe_act], usable_fraction: 1.0 }"));
  CHECK(holds(yaml,
              "moe: { dispatcher: hybridep, dispatcher_sms: 32, overlap_moe_expert_parallel_comm: true, "
              "delay_wgrad_compute: true, permute_fusion: false, paged_stash: true, "
              "expert_rank_capacity_factor: 1.5 }"));
  // Megatron-Bridge's recipes: graphs on Grace hosts, fused experts from 26.06 on with a graph of the iteration.
  const std::map<std::string, std::string> bridge = {
      {"source", "NVIDIA-NeMo/Megatron-Bridge docs"}, {"gpu", "gb200-nvl72"}, {"gpus", "16"}, {"precision", "mxfp8"}};
  const auto with = [&](std::map<std::string, std::string> more) {
    more.insert(bridge.begin(), bridge.end());
    return scenario_of(row(more), {}).yaml;
  };
  const std::string graphs = "cuda_graph_scope: [attn, moe_router, moe_preprocess]";
  CHECK(holds(with({}), graphs));
  CHECK_FALSE(holds(with({{"cuda_graph", "none"}}), graphs));
  CHECK_FALSE(holds(with({{"gpu", "b200-sxm"}}), graphs));
  CHECK_FALSE(holds(with({{"source", "elsewhere"}}), graphs));
  const std::string fused = "use_transformer_engine_op_fuser: true";
  for (const char* release : {"NeMo 26.06", "NeMo 26.08.01", "2026-06-01"}) {
    CAPTURE(std::string(release));
    CHECK(holds(with({{"cuda_graph", "full_iteration"}, {"release", release}}), fused));
  }
  for (const char* release : {"NeMo 26.05", "2026-05-31", "main 1e05700", "NeMo", ""}) {
    CAPTURE(std::string(release));
    CHECK_FALSE(holds(with({{"cuda_graph", "full_iteration"}, {"release", release}}), fused));
  }
  CHECK_FALSE(holds(with({{"cuda_graph", "transformer_engine"}, {"release", "NeMo 26.06"}}), fused));
  // What rows leave open: mxfp8 on Grace hosts captures the iteration from 26.06 on.
  const std::map<std::string, std::string> open = {{"dispatcher", ""}, {"ep_overlap", ""}, {"cuda_graph", ""}};
  const auto left_open = [&](std::map<std::string, std::string> more) {
    more.insert(open.begin(), open.end());
    return with(std::move(more));
  };
  const std::string later = left_open({{"release", "NeMo 26.06"}}), earlier = left_open({{"release", "NeMo 26.05"}});
  for (const char* key : {"cuda_graph_impl: full_iteration", "dispatcher: hybridep",
                          "overlap_moe_expert_parallel_comm: true", "use_transformer_engine_op_fuser: true"}) {
    CAPTURE(std::string(key));
    CHECK(holds(later, key));
    CHECK_FALSE(holds(earlier, key));
  }
  CHECK_FALSE(holds(left_open({{"release", "NeMo 26.06"}, {"precision", "bf16"}}), "full_iteration"));
  CHECK(holds(scenario_of(row({{"framework", "automodel"}, {"sharding", "fsdp2"}}), {}).yaml, "kernel_library: none"));
  const std::string titan =
      scenario_of(
          row({{"framework", "torchtitan"}, {"sharding", "fsdp2"}, {"shard_group", "8"}, {"dispatcher_sms", "16"}}), {})
          .yaml;
  CHECK(holds(titan, "framework: torchtitan, rms_norm_fusion: false, cross_entropy_loss_fusion: false }"));
  CHECK(holds(titan, "optimizer: { sharding: fsdp2, shard_group: 8 }"));
  CHECK_FALSE(holds(titan, "dispatcher_sms"));  // of no dispatcher that has kernels
  // 16 GPUs of one stage without tensor parallelism: the whole group.
  CHECK(holds(scenario_of(row({{"sharding", "fsdp2"}, {"shard_group", "16"}}), {}).yaml,
              "optimizer: { sharding: fsdp2 }"));
}
