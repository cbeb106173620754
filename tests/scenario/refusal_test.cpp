#include <doctest/doctest.h>

#include "scenario/keys.h"
#include "support.h"

using namespace moeplan;
using namespace moeplan::scenario;
using namespace moeplan::scenario::testing;

TEST_CASE("parallel sizes that cannot be are refused with their numbers") {
  // 128 positions; context parallelism deals two slices a rank.
  CHECK(holds(refusal(kSmall, {{"cp", "3"}}), "context_parallel_size"));
  CHECK(holds(refusal(kSmall, {{"cp", "2"}, {"seq", "6"}}), "expected tensor x context parallel size"));
  // tp x cp = 1 is no multiple of 2.
  CHECK(holds(refusal(kSmall, {{"etp", "2"}, {"ep", "2"}}), "expert tensor parallel size that does not divide"));
  CHECK(holds(refusal(kSmall, {{"vpp", "2"}}), "parallel"));                           // one stage has no virtual ones
  CHECK(holds(refusal(kSmall, {{"pp", "2"}, {"vpp", "3"}}), "divide evenly over 6"));  // 4 layers
  CHECK(refusal(kSmall, {{"cp", "1"}, {"vpp", "1"}, {"etp", "1"}}).empty());
  CHECK(refusal(kSmall, {{"cp", "2"}}).empty());
  CHECK(refusal(kSmall, {{"tp", "2"}, {"etp", "2"}}).empty());
}

TEST_CASE("virtual stages interleave unless another schedule is stated") {
  // 8 GPUs, 2 stages, 4 replicas, 16 samples: 4 microbatches, a multiple of 2.
  CHECK(resolve(kSmall, {{"pp", "2"}, {"vpp", "2"}}).training.schedule == "interleaved");
  CHECK(resolve(kSmall, {{"pp", "2"}}).training.schedule == "1f1b");
  CHECK(holds(refusal(kSmall, {{"pp", "2"}, {"vpp", "2"}, {"schedule", "1f1b"}}), "does not take 2 virtual stages"));
  CHECK(holds(refusal(kSmall, {{"schedule", "interleaved"}}), "needs more than one virtual stage"));
  CHECK(holds(refusal(kSmall, {{"pp", "2"}, {"vpp", "2"}, {"gbs", "12"}}), "multiples of the 2 stages, got 3"));
}

TEST_CASE("stages may be uneven: layout strings, first and last counts, embedding and loss as layers") {
  CHECK(resolve(kSmall, {{"pp", "2"}, {"pipeline_model_parallel_layout", "'Et|tttL'"}}).stages.text() == "Et|tttL");
  const Scenario interleaved = resolve(kSmall, {{"pp", "2"}, {"pipeline_model_parallel_layout", "'E|t*2|t|tL'"}});
  CHECK(interleaved.layout.vpp == 2);
  CHECK(interleaved.training.schedule == "interleaved");
  CHECK(resolve(kSmall, {{"pp", "2"}, {"decoder_first_pipeline_num_layers", "1"}}).stages.text() == "Et|tttL");
  CHECK(holds(refusal(kSmall, {{"pp", "2"}, {"pipeline_model_parallel_layout", "'Et|ttL'"}}),
              "expected 4 layers (t) as the model has, got 3"));
  CHECK(holds(refusal(kSmall, {{"pp", "2"},
                               {"pipeline_model_parallel_layout", "'Et|tttL'"},
                               {"decoder_first_pipeline_num_layers", "1"}}),
              "stands beside other rules"));
}

TEST_CASE("values of other versions are refused by name, and unknown ones with the nearest name") {
  struct Case {
    const char* key;
    const char* value;
    const char* message;
  };
  const Case cases[] = {
      {"precision", "fp32", "fp32 is not supported in this version; expected one of bf16, fp16"},
      {"precision", "fp8_tensorwize", "did you mean 'fp8_tensorwise'?"},
      {"precision", "mxfp8", "the profile h100-sxm states no rate of mxfp8"},
      {"precision", "bf61", "did you mean 'bf16'?"},
      {"schedule", "zero_bubble", "expected one of 1f1b, interleaved, gpipe, zb_h1, zb_v, dualpipe, dualpipe_v"},
      {"schedule", "dualpipev", "did you mean 'dualpipe'?"},
      {"schedule", "1f1p", "did you mean '1f1b'?"},
      {"dispatcher", "flex", "expected one of alltoall, allgather, deepep, hybridep, got 'flex'"},
      {"dispatcher", "allgather", "memfine cuts what is exchanged into chunks"},
      {"dispatcher_sms", "16", "only the kernels of deepep and hybridep"},
      {"paged_stash", "true", "add expert_rank_capacity_factor: 1.5"},
      {"delay_wgrad_compute", "true", "add overlap_moe_expert_parallel_comm: true"},
      {"sharding", "zero4", "did you mean 'zero1'?"},
      {"shard_group", "3", "expected a divisor of the data-parallel group of 8 ranks (data x context), got 3"},
      {"offload_fraction", "0.5", "add cpu_offload: true"},
      {"offload_modules", "[core_atn]", "did you mean 'core_attn'?"},
      {"cuda_graph_scope", "[attn]", "add cuda_graph_impl: transformer_engine"},
      {"optimizer.kind", "sgd", "sgd is not supported in this version; expected one of adam, muon, dist_muon"},
      {"optimizer", "{ kind: muon, sharding: zero1 }", "kind: dist_muon deals whole matrices out to ranks"},
      {"optimizer", "{ kind: dist_muon, sharding: ddp }", "by whole matrices: expected zero1"},
      {"optimizer", "{ kind: dist_muon, shard_group: 4 }", "to the whole data-parallel group"},
      {"optimizer", "{ kind: muon, cpu_offload: true }", "muon on the host is not supported in this version"},
      {"fp8_param_gather", "true", "precision: fp8_tensorwise, fp8_blockwise or mxfp8"},
      {"hidden_dropout", "1.5", "expected a number from 0 to 1"},
      {"recompute_method", "block", "only under 'recompute_granularity: full'"},
      {"recompute_num_layers", "2", "groups of layers are recomputed only under 'recompute_granularity: full'"},
      {"lrmoe.mode", "C", "expected one of B, A, got 'C'"},
      {"lrmoe.replicas", "all", "expected one of none, greedy, got 'all'"},
      {"lrmoe.max_instances", "0", "expected an integer from 1 to 64, got '0'"},
      {"capacity.factor", "0", "expected a number > 0"},
      {"capacity.drop_policy", "last", "expected one of probs, position, got 'last'"},
      {"routing", "{ preset: aux-loss, iteration: 50 }",
       "a preset of routing is not supported in this version; expected trace, balanced or lognormal"},
      {"routing", "{ balanced: true, map: { layers: cyclic } }", "'map' is a key of routing by a trace"},
      {"policies", "{ symi: {} }", "this policy is not supported in this version; expected capacity, memfine or lrmoe"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.key);
    CAPTURE(c.value);
    CHECK(holds(refusal(kSmall, {{c.key, c.value}}), c.message));
  }
  CHECK(faults_of(kSmall, {{"schedule", "gpipe"}}).empty());
  CHECK(faults_of(kSmall, {{"shard_group", "4"}}).empty());
  CHECK(faults_of(kSmall, {{"recompute_granularity", "full"}, {"recompute_method", "block"}}).empty());
  CHECK(faults_of(kSmall, {{"recompute_granularity", "full"}, {"recompute_num_layers", "2"}}).empty());
  CHECK(faults_of(kSmall, {{"optimizer", "{ kind: muon }"}}).empty());
  CHECK(faults_of(kSmall, {{"optimizer", "{ kind: dist_muon, sharding: zero1 }"}}).empty());
  CHECK(faults_of(kSmall, {{"precision", "fp8_tensorwise"}, {"fp8_param_gather", "true"}}).empty());
  CHECK(holds(
      refusal(kSmall, {{"precision", "fp8_tensorwise"}, {"fp8_param_gather", "true"}, {"framework", "torchtitan"}}),
      "torchtitan keeps fp32 shards as parameters"));
  CHECK(faults_of(kSmall, {{"lrmoe.mode", "B"}}).empty());
}

TEST_CASE("sequence parallelism may be off only without tensor parallelism") {
  CHECK(faults_of(kSmall, {{"sequence_parallel", "false"}}).empty());
  CHECK(holds(refusal(kSmall, {{"sequence_parallel", "false"}, {"tp", "2"}, {"gbs", "4"}}),
              "false with tensor_model_parallel_size > 1 is not supported in this version; expected true"));
}

TEST_CASE("all faults of a file are reported at once, in the order of the file") {
  const std::string text = R"(model: tiny-moe
cluster: { hardware: h100-sxm, gpus: zero }
parallel: { tp: 0, cp: 0 }
training: { micro_batch_size: 1, global_batch_size: 16, sequence_length: 128 }
memory: { usable_fraction: 1.5 }
routing: { balanced: true, lognormal: { sigma: -1 } }
)";
  const std::vector<base::Fault> faults = faults_of(text);
  std::vector<int> lines;
  for (const base::Fault& fault : faults) lines.push_back(fault.where.line);
  // Line 4: seq_length is missing and sequence_length unknown. Line 6: two ways of routing, and sigma below 0.
  CHECK(lines == std::vector<int>{2, 3, 3, 4, 4, 5, 6, 6});
  CHECK(holds(refusal(text), "missing key 'seq_length'"));
  CHECK(holds(refusal(text), "unknown key 'sequence_length'"));
}

TEST_CASE("both spellings of a key are a fault with both places") {
  const std::string text = refusal(small_with("  ep: 4\n", "  ep: 4\n  expert_model_parallel_size: 2\n"));
  CHECK(holds(text, "are the same key"));
  CHECK(holds(text, "s.yaml:5:3"));
  CHECK(holds(text, "see also s.yaml:6:3"));
}

TEST_CASE("routing is stated in exactly one way") {
  CHECK(holds(refusal(small_with("routing: { balanced: true }\n", "")), "missing key 'routing'"));
  CHECK(holds(refusal(small_with("{ balanced: true }", "{}")), "expected one of trace, balanced, lognormal"));
  CHECK(holds(refusal(small_with("balanced: true", "balanced: false")), "expected true"));
  const std::string both = refusal(small_with("balanced: true", "balanced: true, trace: counts.csv"));
  CHECK(holds(both, "'trace' and 'balanced' both state the routing"));
  CHECK(holds(both, "see also s.yaml:12:35: routing.trace"));
  CHECK(
      holds(refusal(small_with("balanced: true", "balanced: true, seed: 3")), "'seed' is a key of routing by a trace"));
}

TEST_CASE("settings of MemFine are checked") {
  const auto memfine = [](const std::string& settings) {
    return refusal(small_with("{ rule: fixed, chunks: 4 }", settings));
  };
  CHECK(holds(memfine("{ rule: fixed }"), "the fixed rule needs 'chunks'"));
  CHECK(holds(memfine("{ chunks: 4 }"), "no rule is stated"));
  CHECK(holds(memfine("{ rule: fixed, chunks: 0 }"), "expected an integer from 1 to 4096, got '0'"));
  CHECK(holds(memfine("{ bins: [] }"), "expected at least one count of chunks"));
  CHECK(holds(memfine("{ bins: [1, 4, 4] }"), "expected counts that grow"));
  CHECK(holds(memfine("{ alpha: 0 }"), "expected a number > 0"));
  CHECK(holds(memfine("{ planning_capacity: 64 }"), "expected a size such as '80 GiB'"));
  CHECK(memfine("{ bins: [1, 4, 5], alpha: 1 }").empty());
}

TEST_CASE("recompute modules are checked against the granularity and by name") {
  const auto memory = [](const std::string& settings) {
    return refusal(small_with("{ usable_fraction: 0.5 }", settings));
  };
  CHECK(holds(memory("{ recompute_modules: [mlp] }"), "only under 'recompute_granularity: selective'"));
  CHECK(holds(memory("{ recompute_granularity: selective, recompute_modules: [core_atn] }"),
              "did you mean 'core_attn'?"));
  CHECK(holds(memory("{ recompute_granularity: selective, recompute_modules: [mlp, mlp] }"), "'mlp' is listed twice"));
  CHECK(holds(memory("{ recompute_granularity: selective, recompute_modules: [[mlp]] }"), "got a list"));
  CHECK(holds(memory("{ given_static_bytes: 43 }"), "expected a size such as '80 GiB'"));
}

TEST_CASE("no key of the table is taken without being read") {
  // A mapping with a key that nothing knows is right for no key: each must refuse it.
  for (const Key& key : key_table()) {
    CAPTURE(key.path);
    CHECK_FALSE(faults_of(kSmall, {{std::string(key.path), "{ no_such_key_at_all: 1 }"}}).empty());
  }
}

TEST_CASE("options outside their range are refused by name") {
  Options options = options_with();
  options.iterations = 0;
  CHECK(holds(base::format_fault(faults_with(kSmall, options).at(0)), "--iterations: expected an integer from 1"));
  options.iterations = 1;
  options.limit = 0.0;
  CHECK(holds(base::format_fault(faults_with(kSmall, options).at(0)), "--limit: expected a number > 0"));
}

TEST_CASE("compiled modules and norms by operators are torchtitan's, and exclude each other") {
  const std::pair<std::string, std::string> titan{"training.framework", "torchtitan"};
  CHECK(holds(refusal(kSmall, {{"training.compile", "true"}}), "Megatron's modules are Transformer Engine's kernels"));
  CHECK(holds(refusal(kSmall, {{"rms_norm_fusion", "false"}}), "framework: torchtitan"));
  CHECK(holds(refusal(kSmall, {titan, {"training.compile", "true"}, {"rms_norm_fusion", "false"}}),
              "compiled norms are one kernel"));
  CHECK(faults_of(kSmall, {titan, {"rms_norm_fusion", "false"}}).empty());
  CHECK(faults_of(kSmall, {{"training.compile", "false"}, {"rms_norm_fusion", "true"}}).empty());  // what is so anyway
}

TEST_CASE("selective_op needs torchtitan") {
  CHECK(holds(refusal(kSmall, {{"recompute_granularity", "selective_op"}}),
              "selective_op is torchtitan's checkpointing"));
  CHECK(faults_of(kSmall, {{"recompute_granularity", "selective_op"}, {"training.framework", "torchtitan"}}).empty());
}
