#include <doctest/doctest.h>

#include "support.h"

using namespace moeplan;
using namespace moeplan::scenario;
using namespace moeplan::scenario::testing;

namespace {

// The one fault of a scenario, as text; what is there instead when it is not one.
std::string only_fault(const std::string& text, const Settings& overrides = {}) {
  const std::vector<base::Fault> faults = faults_of(text, overrides);
  return faults.size() == 1 ? base::format_fault(faults[0])
                            : std::to_string(faults.size()) + " faults: " + refusal(text, overrides);
}

}  // namespace

TEST_CASE("sizes that do not divide the cluster are faults with the place of the cluster") {
  // 3 x 1 x 1 does not divide 8; 8 heads and 4 key and value heads, 128 positions, 8 experts do not divide by 3 either.
  const std::string text = refusal(small_with("tensor_model_parallel_size: 1", "tensor_model_parallel_size: 3"));
  CHECK(holds(text, "s.yaml:4:31: parallel.tensor_model_parallel_size: "));
  CHECK(holds(text, "does not divide the 8 GPUs"));
  CHECK(holds(text, "see also s.yaml:2:38: cluster.gpus"));
}

TEST_CASE("expert parallelism divides the experts, and both files are named") {
  // 16 parts of 8 experts; 16 GPUs and a batch of 16 hold them otherwise.
  const std::string text = only_fault(small_with("  ep: 4\n", "  ep: 16\n"), {{"gpus", "16"}});
  CHECK(holds(text, "s.yaml:5:7: parallel.ep: expected a divisor of the 8 experts of the model, got 16"));
  CHECK(holds(text, "see also " + kData + "/models/tiny-moe.yaml:14:16: moe.num_experts"));
  CHECK(faults_of(small_with("  ep: 4\n", "  ep: 8\n")).empty());
}

TEST_CASE("expert parallelism of a dense model is refused") {
  const std::string text = R"(model: tiny-dense
cluster: { hardware: h100-sxm, gpus: 8 }
parallel: { ep: 2 }
training: { micro_batch_size: 1, global_batch_size: 8, seq_length: 128 }
)";
  CHECK(holds(only_fault(text), "parallel.ep: expected 1: the model has no MoE layers, got 2"));
  CHECK(holds(only_fault(text), "tiny-dense.yaml:12:"));
  CHECK(faults_of(text, {{"ep", "1"}}).empty());
}

TEST_CASE("policies and traces of a dense model are refused with both places") {
  const std::string text = R"(model: tiny-dense
cluster: { hardware: h100-sxm, gpus: 8 }
training: { micro_batch_size: 1, global_batch_size: 8, seq_length: 128 }
moe: { policies: { memfine: { rule: fixed, chunks: 2 }, lrmoe: {} } }
routing: { trace: counts.csv }
)";
  const std::vector<base::Fault> faults = faults_of(text);
  REQUIRE(faults.size() == 3);
  for (const base::Fault& fault : faults) {
    CHECK(fault.message == "the model has no MoE layers");
    REQUIRE(fault.also.size() == 1);
    CHECK(holds(fault.also[0].file, "tiny-dense.yaml"));
  }
}

TEST_CASE("tensor parallelism divides heads, feed-forward widths and positions") {
  // 16 does not divide 8 heads, nor 4 key and value heads; it divides 96, 48 and 128.
  const std::string text = refusal(kSmall, {{"tp", "16"}, {"gpus", "16"}, {"gbs", "16"}});
  CHECK(holds(text, "expected a divisor of the 8 attention heads of the model, got 16"));
  CHECK(holds(text, "tiny-moe.yaml:10:24: attention.num_attention_heads"));
  CHECK(holds(text, "expected a divisor of the 4 key and value heads of the model, got 16"));
  CHECK_FALSE(holds(text, "columns"));
  // 4 divides everything but a sequence of 126 positions.
  const std::string odd = only_fault(kSmall, {{"tp", "4"}, {"seq", "126"}});
  CHECK(holds(odd, "expected a divisor of the 126 positions of a sequence (sequence parallelism), got 4"));
  CHECK(holds(odd, "see also --set seq=126"));
  CHECK(holds(only_fault(kSmall, {{"tp", "4"}, {"model.ffn_hidden_size", "98"}}),
              "the 98 columns of the model's dense feed-forward, got 4"));
  CHECK(holds(only_fault(kSmall, {{"tp", "4"}, {"model.moe.moe_shared_expert_intermediate_size", "50"}}),
              "the 50 columns of the model's shared expert, got 4"));
  CHECK(faults_of(kSmall, {{"tp", "4"}}).empty());
}

TEST_CASE("stages divide the layers") {
  // 4 layers: 2 and 4 stages are possible, 8 are not.
  CHECK(
      holds(only_fault(kSmall, {{"pp", "8"}, {"ep", "1"}}), "expected a divisor of the 4 layers of the model, got 8"));
  CHECK(faults_of(kSmall, {{"pp", "4"}, {"ep", "2"}}).empty());
}

TEST_CASE("an expert group larger than a stage does not divide the cluster") {
  // Two stages of 4 GPUs cannot hold a group of 8.
  CHECK(holds(only_fault(kSmall, {{"pp", "2"}, {"ep", "8"}}), "does not divide the 8 GPUs"));
  CHECK(faults_of(kSmall, {{"pp", "2"}, {"ep", "4"}}).empty());
}

TEST_CASE("the global batch is a multiple of the samples of one microbatch over all replicas") {
  const std::string text = only_fault(small_with("global_batch_size: 16", "global_batch_size: 20"), {{"mbs", "2"}});
  CHECK(holds(text,
              "s.yaml:8:22: training.global_batch_size: expected a multiple of micro_batch_size x data-parallel "
              "size = 2 x 8 = 16, got 20"));
  CHECK(holds(text, "see also --set mbs=2"));
  CHECK(holds(text, "see also s.yaml:2:38: cluster.gpus"));
  CHECK(faults_of(kSmall, {{"gbs", "32"}, {"mbs", "2"}}).empty());
  CHECK_FALSE(faults_of(kSmall, {{"gbs", "4"}}).empty());  // fewer than one microbatch a replica
}

TEST_CASE("each chunk of a rank has at least one position") {
  // 128 positions over 4 ranks: 32 a rank.
  CHECK(faults_of(kSmall, {{"tp", "4"}, {"memfine.chunks", "32"}}).empty());
  const std::string text = only_fault(kSmall, {{"tp", "4"}, {"memfine.chunks", "33"}});
  CHECK(holds(text, "expected at most 32 chunks: a rank has 128 / 4 positions of a sequence, got 33"));
  CHECK(holds(text, "see also s.yaml:9:15: training.seq_length"));
  CHECK(holds(only_fault(kSmall, {{"memfine.bins", "[1, 256]"}}), "moe.policies.memfine.bins: expected at most 128"));
}

TEST_CASE("mla_up_proj needs multi-head latent attention") {
  const Settings selective = {{"recompute_granularity", "selective"}, {"recompute_modules", "[mla_up_proj]"}};
  const std::string text = only_fault(kSmall, selective);
  CHECK(holds(text, "mla_up_proj needs a model with multi-head latent attention"));
  CHECK(holds(text, "tiny-moe.yaml:9:9: attention.kind"));
}

TEST_CASE("modules without a layer they apply to are a warning, as Megatron ignores them") {
  const std::string text = R"(model: tiny-dense
cluster: { hardware: h100-sxm, gpus: 8 }
training: { micro_batch_size: 1, global_batch_size: 8, seq_length: 128 }
memory: { recompute_granularity: selective, recompute_modules: [moe, moe_act, shared_experts, mlp] }
)";
  const Scenario s = resolve(text);
  CHECK(s.warnings.size() == 3);
  CHECK(holds(s.warnings, "moe_act has no effect: the model has no MoE layers"));
}

TEST_CASE("MemFine by layer contradicts another granularity that is stated") {
  const std::string text = only_fault(kSmall, {{"memfine.recompute", "layer"}, {"recompute_granularity", "none"}});
  CHECK(holds(text, "recompute by layer needs 'recompute_granularity: full'"));
  CHECK(holds(text, "see also --set recompute_granularity=none"));
  CHECK(faults_of(kSmall, {{"memfine.recompute", "layer"}, {"recompute_granularity", "full"}}).empty());
}

TEST_CASE("unknown models and profiles are both named, with the nearest names") {
  const std::string text = refusal(kSmall, {{"model", "tiny-mo"}, {"hardware", "h100-smx"}});
  CHECK(holds(text, "did you mean 'tiny-moe'?"));
  CHECK(holds(text, "did you mean 'h100-sxm'?"));
}

TEST_CASE("faults of two files together are all reported at once") {
  // Layers, heads, positions and experts, each against the model: 3 divides none of them, nor the 8 GPUs.
  const std::vector<base::Fault> faults = faults_of(kSmall, {{"tp", "3"}, {"pp", "3"}, {"ep", "3"}});
  CHECK(faults.size() >= 6);
}
