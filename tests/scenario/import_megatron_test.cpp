#include "scenario/import_megatron.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "base/file.h"
#include "scenario/import_megatron_arithmetic.h"
#include "scenario/import_megatron_shell.h"
#include "scenario/support.h"

namespace moeplan::scenario {
using namespace testing;

namespace {

MegatronSettings settings_with(std::int64_t gpus = 0) {
  MegatronSettings settings;
  settings.name = "mine";
  settings.model_file = "./mine.yaml";
  settings.gpus = gpus;
  return settings;
}

MegatronScenario import(const std::string& text, std::int64_t gpus = 0) {
  return import_megatron(text, "in.sh", settings_with(gpus));
}

MegatronScenario import_file(const std::string& name) {
  return import_megatron(base::read_text(kData + "/" + name), name, settings_with());
}

std::string error_of(const std::string& text, std::int64_t gpus = 8) {
  try {
    import(text, gpus);
  } catch (const base::Error& error) {
    return error.what();
  }
  return "";
}

std::vector<std::string> warnings_of(const MegatronScenario& result) {
  std::vector<std::string> all;
  for (const base::Fault& fault : result.warnings) all.push_back(base::format_fault(fault));
  return all;
}

// A dense model of four layers: everything that must be stated, and a vocabulary.
const std::string kDense =
    "--num-layers 4 --hidden-size 256 --num-attention-heads 4 --seq-length 128 --micro-batch-size 1 --bf16 "
    "--position-embedding-type rope --vocab-size 1000 ";

std::vector<std::string> words_of(const std::string& script) {
  std::vector<std::string> words;
  for (const std::vector<Text>& command : read_shell(script, "x.sh").commands) {
    for (const Text& word : command) words.push_back(word.chars);
  }
  return words;
}

}  // namespace

TEST_CASE("a launch script becomes a scenario that reads back, with the shipped model of its shape") {
  const MegatronScenario result = import_file("megatron-launch.sh");
  CHECK(result.model.empty());
  const Scenario scenario = resolve(result.scenario);
  CHECK(scenario.model.id == "qwen3-30b-a3b");
  CHECK(scenario.layout.world == 32);  // 8 a node x 4 nodes
  CHECK(scenario.layout.pp == 2);
  CHECK(scenario.layout.vpp == 2);  // 48 layers / 2 stages / 12 layers a virtual stage
  CHECK(scenario.training.overlap_p2p_comm);
  CHECK(scenario.layout.ep == 8);
  CHECK(scenario.training.global_batch_size == 256);
  CHECK(scenario.training.total_tokens == 500.0 * 256 * 4096);
  CHECK(scenario.optimizer.shards_states());
  CHECK(scenario.recompute.modules == std::set<RecomputeModule>{RecomputeModule::layernorm, RecomputeModule::moe_act});
  CHECK(warnings_of(result) ==
        std::vector<std::string>{"megatron-launch.sh:40: '--strange-option 4' was not understood",
                                 "megatron-launch.sh:41: '$@' was not understood: this file does not set it"});
  CHECK(scenario.training.overlap_grad_reduce);
  CHECK(holds(result.scenario, "#   line 40: '--strange-option 4' was not understood\n"));
  CHECK(holds(result.scenario, "#   --lr, --save, --log-interval\n"));
  CHECK(scenario.dispatch.grouped_gemm);
}

TEST_CASE("a list of arguments becomes a scenario and a model file that read back") {
  MegatronScenario result = import_megatron(base::read_text(kData + "/megatron-list.txt"), "l.txt", settings_with(8));
  base::Faults faults;
  const model::Architecture arch = model::read_architecture(config::parse_yaml(result.model, "m"), "m", faults);
  CHECK(faults.empty());
  CHECK(arch.id == "mine");
  CHECK(arch.layer_count() == 4);
  CHECK(arch.moe_layer_count() == 3);  // ([0]*1+[1]*3)
  CHECK(arch.attention.kind == model::AttentionKind::mla);
  CHECK(arch.tied_embeddings);  // Megatron's default
  CHECK(holds(result.scenario, "model: ./mine.yaml\n"));
  CHECK(holds(result.scenario, "capacity: { factor: 1.25, pad: true, drop_policy: probs }"));
  CHECK(holds(result.scenario, "pipeline_model_parallel_layout: \"Et|(t|)*2tL\""));
  CHECK(holds(result.scenario, "sharding: ddp"));
  CHECK(holds(result.scenario, "dispatcher: deepep"));  // flex with its default backend
  CHECK(holds(result.scenario, "precision: fp16"));
  CHECK(warnings_of(result).empty());
}

TEST_CASE("the dump of a run becomes a scenario, behind prefixes and among other lines") {
  const MegatronScenario result = import_file("megatron-dump.log");
  const Scenario scenario = resolve(result.scenario);
  CHECK(scenario.model.id == "deepseek-v2-lite");
  CHECK(scenario.layout.world == 16);
  CHECK(scenario.layout.ep == 8);
  CHECK(warnings_of(result) ==
        std::vector<std::string>{"megatron-dump.log:48: 'some_new_argument 3' was not understood"});
  CHECK(holds(result.scenario, "account_for_a_very_long_argument_name_in_this_test_of_dumps"));  // without dots
  CHECK(holds(result.scenario, "cp_comm_type, "));  // None in the run: named, not dropped
}

TEST_CASE("Megatron's defaults hold where options are absent") {
  const MegatronScenario result = import(kDense, 8);
  base::Faults faults;
  const model::Architecture arch = model::read_architecture(config::parse_yaml(result.model, "m"), "m", faults);
  CHECK(faults.empty());
  CHECK(arch.mlp == model::MlpKind::gelu);
  CHECK(arch.dense_ffn == 1024);  // 4 h
  CHECK(arch.layer_norm_bias);
  CHECK(arch.linear_bias);
  CHECK(arch.attention.kv_heads == 4);
  CHECK(arch.attention.head_dim == 64);
  CHECK(holds(result.scenario, "global_batch_size: 8\n"));  // one microbatch of each of 8 replicas
  // SwiGLU: 256 x 4 x 2/3 = 682.7, down to a multiple of 64.
  CHECK(holds(import(kDense + "--swiglu", 8).model, "ffn_hidden_size: 640\n"));
  CHECK(holds(import(kDense + "--tensor-model-parallel-size 2", 8).scenario,
              "tensor parallelism without --sequence-parallel: not supported"));
  const std::string experts = kDense + "--num-experts 4 --tensor-model-parallel-size 2 --sequence-parallel";
  CHECK(holds(import(experts, 8).scenario, "expert_tensor_parallel_size: 2\n"));
  CHECK(holds(import(experts, 8).scenario, "no --moe-token-dispatcher-type: allgather, Megatron's default"));
}

TEST_CASE("precision, sharding, dispatcher, graphs, offload and overlap of a launch") {
  const std::string base = kDense + "--num-experts 8 --bf16 --swiglu --expert-model-parallel-size 2 ";
  struct Case {
    const char* options;
    std::vector<const char*> lines;
  };
  const Case cases[] = {
      {"--fp8-format hybrid", {"precision: fp8_tensorwise"}},
      {"--fp8-format e4m3 --fp8-recipe blockwise", {"precision: fp8_blockwise"}},
      {"--fp8-format e4m3 --fp8-recipe mxfp8", {"precision: mxfp8"}},
      {"--fp4-format e2m1", {"precision: nvfp4"}},
      {"", {"precision: bf16", "cross_entropy_loss_fusion: false", "dispatcher: allgather", "permute_fusion: false"}},
      {"--cross-entropy-loss-fusion --moe-permute-fusion", {"cross_entropy_loss_fusion: true"}},
      {"--use-distributed-optimizer --num-distributed-optimizer-instances 2", {"sharding: zero1", "shard_group: 4"}},
      {"--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads_params", {"sharding: megatron_fsdp"}},
      {"--use-megatron-fsdp --data-parallel-sharding-strategy optim_grads", {"sharding: zero2"}},
      {"--use-torch-fsdp2", {"sharding: fsdp2"}},
      {"--optimizer-cpu-offload --optimizer-offload-fraction 0.25", {"cpu_offload: true", "offload_fraction: 0.25"}},
      {"--fine-grained-activation-offloading --offload-modules core_attn moe_act",
       {"offload_modules: [core_attn, moe_act]"}},
      {"--moe-token-dispatcher-type flex --moe-flex-dispatcher-backend hybridep --moe-hybridep-num-sms 16",
       {"dispatcher: hybridep", "dispatcher_sms: 16"}},
      {"--moe-token-dispatcher-type alltoall --overlap-moe-expert-parallel-comm --delay-wgrad-compute",
       {"overlap_moe_expert_parallel_comm: true", "delay_wgrad_compute: true"}},
      {"--cuda-graph-impl local --cuda-graph-scope full_iteration", {"cuda_graph_impl: full_iteration"}},
      {"--cuda-graph-impl transformer_engine --cuda-graph-scope attn moe_router",
       {"cuda_graph_impl: transformer_engine", "cuda_graph_scope: [attn, moe_router]"}},
      {"--recompute-granularity full --recompute-method block --recompute-num-layers 2",
       {"recompute_method: block", "recompute_num_layers: 2"}},
      {"--no-overlap-p2p-communication", {"overlap_p2p_comm: false"}},
      {"--moe-expert-rank-capacity-factor 1.5 --moe-paged-stash",
       {"expert_rank_capacity_factor: 1.5", "paged_stash: true"}},
  };
  for (const Case& c : cases) {
    CAPTURE(std::string(c.options));
    const MegatronScenario result = import(base + c.options, 8);
    CHECK(warnings_of(result).empty());
    for (const char* line : c.lines) {
      CAPTURE(std::string(line));
      CHECK(holds(result.scenario, std::string("  ") + line + "\n"));
    }
  }
}

TEST_CASE("a long layout string is kept whole, a long line of a comment is cut") {
  std::string layout = "E";
  for (int i = 0; i < 150; ++i) layout += "t|";
  CHECK(holds(import(kDense + "--pipeline-model-parallel-layout '" + layout + "L'", 8).scenario,
              "\"" + layout + "L\"\n"));
  CHECK(
      holds(import(kDense + "--odd " + std::string(300, 'x'), 8).scenario, "--odd " + std::string(194, 'x') + " ...'"));
}

TEST_CASE("GPUs come from the option, the launcher, the batch job or WORLD_SIZE") {
  const auto gpus = [](const std::string& text, std::int64_t option = 0) {
    const std::string yaml = import(text, option).scenario;
    const std::size_t at = yaml.find("gpus: ");
    return yaml.substr(at + 6, yaml.find_first_of(" \n", at + 6) - at - 6);
  };
  CHECK(gpus("torchrun --nproc_per_node=8 --nnodes 2 t.py " + kDense) == "16");
  CHECK(gpus("torchrun --nproc-per-node 8 t.py " + kDense) == "8");
  CHECK(gpus("torchrun --nproc_per_node=8 --nnodes 2 t.py " + kDense, 4) == "4");
  CHECK(gpus("srun -N4 --ntasks-per-node=8 bash -c \"python t.py " + kDense + "\"") == "32");
  CHECK(gpus("#SBATCH --nodes=3\n#SBATCH --gpus-per-node=4\npython t.py " + kDense) == "12");
  CHECK(gpus("#SBATCH --nodes=3 --ntasks-per-node=1\ntorchrun --nproc_per_node 8 --nnodes $NODES t.py " + kDense) ==
        "24");
  CHECK(gpus("WORLD_SIZE=24\npython t.py " + kDense) == "24");
  CHECK(holds(error_of("torchrun --nproc_per_node gpu t.py " + kDense, 0), "number of GPUs is not stated"));
}

TEST_CASE("the shell's words: quotes, continuations, arrays, defaults, arithmetic, comments") {
  using List = std::vector<std::string>;
  CHECK(words_of("a 'b c' \"d  e\" f\\ g # h\ni") == List{"a", "b c", "d  e", "f g", "i"});
  CHECK(words_of("V=\"x y\"\ncmd $V \"$V\" '$V'") == List{"cmd", "x", "y", "x y", "$V"});
  CHECK(words_of("A=(1 \"2 3\" # four\n 5)\nA+=(6)\ncmd \"${A[@]}\"") == List{"cmd", "1", "2 3", "5", "6"});
  CHECK(words_of("cmd a \\\n  b") == List{"cmd", "a", "b"});
  CHECK(words_of("cmd ${NO:-4} ${NO-x} $NO $(date) ${NO:-}") == List{"cmd", "4", "x", "$NO", "$(date)"});
  CHECK(words_of("N=${NODES:-\"1\"}\ncmd $N \"${NO:-'a  b'}\"") == List{"cmd", "1", "a  b"});
  CHECK(words_of("N=3\ncmd $((2 * (N + $N))) $((N/0))") == List{"cmd", "12", "$((N/0))"});
  CHECK(words_of("cmd a > log 2>&1 | tee x") == List{"cmd", "a", "tee", "x"});
  CHECK(words_of("cat <<EOF\nit's\nEOF\ncmd") == List{"cat", "cmd"});
  CHECK(evaluate_arithmetic("7 % 4 - 10 / 2") == -2);
  CHECK(!evaluate_arithmetic("9007199254740992 * 9007199254740992"));
  CHECK(!evaluate_arithmetic("1 +"));
  CHECK(words_of("echo \"it's x.py --help\"") == List{"echo", "it's x.py --help"});
  CHECK(words_of("srun bash -c 'python x.py --a 1'") == List{"srun", "bash", "-c", "python", "x.py", "--a", "1"});
  // The line where a word was written, also when it came through a variable.
  const Shell shell = read_shell("V=\"a\nb\"\ncmd $V", "x.sh");
  CHECK(shell.commands[0][2].line() == 2);
}

TEST_CASE("nothing is dropped in silence") {
  const auto warns = [](const std::string& text, const std::string& part) {
    const std::vector<std::string> all = warnings_of(import(text, 8));
    return std::any_of(all.begin(), all.end(), [&](const std::string& warning) { return holds(warning, part); });
  };
  CHECK(warns(kDense + "--num-layers 8", "in.sh:1: '--num-layers 4' is given again and not used: line 1 counts"));
  CHECK(warns(kDense + "--bf16 yes", "'yes' was not understood: the option takes no value"));
  CHECK(warns(kDense + "--seq-length 256 512", "'512' was not understood: the option takes one value"));
  CHECK(warns("A=\"--rotary-percent 1 --x 2\"\npython t.py " + kDense, "in.sh:1: options in A are not used"));
  CHECK(warns("if true; then\nB=1\nfi\npython t.py " + kDense, "conditions are not evaluated"));
  CHECK(warns("python t.py " + kDense + "\n--stray 1", "in.sh:2: '--stray' stands outside of the launching command"));
  CHECK_FALSE(warns(kDense + "--hidden-dropout 0.0", "hidden-dropout"));
  CHECK(warns(kDense + "--fp8-param-gather", "'--fp8-param-gather': not supported"));
}

TEST_CASE("options of the optimizer, of fp8 parameters, dropout, fusion and groups of layers are read") {
  const auto has = [](const std::string& options, const std::string& line) {
    return holds(import(kDense + options, 8).scenario, "  " + line + "\n");
  };
  CHECK(has("", "kind: adam"));
  CHECK(has("--optimizer muon", "kind: muon\n  sharding: ddp"));
  CHECK(has("--optimizer dist_muon", "kind: dist_muon\n  sharding: zero1"));
  CHECK(has("--optimizer muon --use-distributed-optimizer", "kind: dist_muon\n  sharding: zero1"));
  const std::string apart = "gradient_accumulation_fusion: false";
  CHECK(has("--no-gradient-accumulation-fusion", apart));
  CHECK_FALSE(has("", apart));
  CHECK(has("", "hidden_dropout: 0.1"));  // Megatron's default
  CHECK(has("--hidden-dropout 0.25", "hidden_dropout: 0.25"));
  CHECK_FALSE(holds(import(kDense + "--hidden-dropout 0.0", 8).scenario, "hidden_dropout:"));
  CHECK(has("--no-bias-gelu-fusion", "bias_activation_fusion: false"));
  CHECK_FALSE(has("--no-bias-swiglu-fusion", "bias_activation_fusion: false"));  // of another activation
  CHECK(has("--swiglu --no-bias-swiglu-fusion", "bias_activation_fusion: false"));
  CHECK(has("--fp8-format e4m3 --fp8-recipe tensorwise --fp8-param-gather", "fp8_param_gather: true"));
  CHECK_FALSE(has("--fp8-format e4m3 --fp8-recipe tensorwise", "fp8_param_gather: true"));
  const std::string full = "--recompute-granularity full --recompute-method uniform --recompute-num-layers ";
  CHECK(has(full + "2", "recompute_method: uniform\n  recompute_num_layers: 2"));
  CHECK_FALSE(has(full + "1", "recompute_num_layers: 1"));
}

TEST_CASE("bad input is refused with its place") {
  CHECK(holds(error_of("echo hello"), "in.sh: no options of Megatron found"));
  CHECK(holds(error_of("a\n" + kDense + "\n\"b"), "in.sh:3: a quote (\") is not closed"));
  CHECK(holds(error_of(kDense + "'b"), "in.sh:1: a quote (') is not closed"));
  CHECK(holds(error_of("A=(1\n2"), "in.sh:1: '(' is not closed"));
  CHECK(holds(error_of("echo ${A"), "in.sh:1: '{' is not closed"));
  CHECK(
      holds(error_of("\n" + kDense + "--context-parallel-size"), "in.sh:2: --context-parallel-size: expected a value"));
  CHECK(holds(error_of(kDense + "--mtp-num-layers $N"), "the value '$N' is not set in this file"));
  CHECK(holds(error_of(kDense + "--mtp-num-layers 1.5"), "expected an integer, got '1.5'"));
  CHECK(holds(error_of("--num-layers 4"), "missing option --hidden-size"));
  for (const char* size : {"tensor-model-parallel-size",
                           "pipeline-model-parallel-size",
                           "context-parallel-size",
                           "expert-model-parallel-size",
                           "expert-tensor-parallel-size",
                           "num-virtual-stages-per-pipeline-rank",
                           "num-layers-per-virtual-pipeline-stage",
                           "micro-batch-size",
                           "global-batch-size",
                           "seq-length",
                           "num-layers",
                           "hidden-size",
                           "num-attention-heads",
                           "ffn-hidden-size",
                           "kv-channels",
                           "num-query-groups",
                           "moe-router-topk",
                           "moe-ffn-hidden-size",
                           "vocab-size",
                           "make-vocab-size-divisible-by",
                           "recompute-num-layers",
                           "num-distributed-optimizer-instances"}) {
    const std::string option = "--" + std::string(size);
    CAPTURE(option);
    CHECK(holds(error_of(kDense + "--num-experts 4\n" + option + " 0"),
                "in.sh:2: " + option + ": expected an integer >= 1, got '0'"));
  }
  CHECK(holds(error_of(kDense + "--num-layers 4097"), "expected at most 4096 layers"));
  CHECK(holds(error_of(kDense + "--num-query-groups 3 --group-query-attention"), "as a model file"));
  CHECK(holds(error_of(kDense + "--num-experts 4 --moe-layer-freq '[1,0]'"), "expected 4 entries, one a layer, got 2"));
  CHECK(holds(error_of("------------ arguments ------------\n  num_layers ..... 4\n"), "no line 'end of arguments'"));
  // Doubling a variable 30 times ends at the bound, not in memory.
  std::string doubling = "A=xxxxxxxx\n";
  for (int i = 0; i < 30; ++i) doubling += "A=$A$A\n";
  CHECK(holds(error_of(doubling), "more text than any launch script has"));
}

TEST_CASE("cut and damaged inputs are refused or read, and never break a promise") {
  for (const char* name : {"megatron-launch.sh", "megatron-list.txt", "megatron-dump.log"}) {
    const std::string text = base::read_text(kData + "/" + std::string(name));
    int refused = 0;
    for (std::size_t at = 0; at < text.size(); at += 7) {
      for (const std::string& damaged : {text.substr(0, at), text.substr(0, at) + "\"$(([{" + text.substr(at)}) {
        try {
          import(damaged, 8);
        } catch (const base::Error&) {
          ++refused;
        }
      }
    }
    CHECK(refused > 0);
  }
}

}  // namespace moeplan::scenario
