#include <fmt/core.h>

#include <algorithm>
#include <set>

#include "base/checked.h"
#include "memory/static_tensors.h"
#include "model/parameters.h"
#include "plan/shape.h"
#include "plan/static_memory.h"
#include "search/oom_candidates.h"

// Sizes that a plan's tensors can have, each with how it comes about.
namespace moeplan::search {
namespace {

using scenario::Scenario;

constexpr std::int64_t kD = plan::Shape::kElement;

const char* dtype(std::int64_t bytes) { return bytes == 4 ? "fp32" : bytes == 2 ? "bf16" : "8 bit"; }

class Sizes {
 public:
  void add(std::string name, OomSource source, std::int64_t elements, std::int64_t element_bytes,
           std::string derivation = "") {
    if (elements <= 0 || element_bytes <= 0) return;
    const std::int64_t bytes = elements * element_bytes;
    if (!seen_.emplace(name, bytes).second) return;
    if (!derivation.empty()) derivation += fmt::format(" x {} B", element_bytes);
    list_.push_back({std::move(name), source, bytes, std::move(derivation)});
  }
  std::vector<SizedTensor> take() { return std::move(list_); }

 private:
  std::set<std::pair<std::string, std::int64_t>> seen_;
  std::vector<SizedTensor> list_;
};

// Elements of one group of parameters (dense, experts, both) on a rank, and how it is written.
struct Group {
  const char* name;
  OomSource source;
  std::int64_t elements = 0, shards = 1;
  std::string derivation;
};

std::int64_t matrices(const Scenario& s) { return s.model.mlp == model::MlpKind::swiglu ? 3 : 2; }

std::string expert_text(const Scenario& s, std::int64_t layers) {
  const std::int64_t local = base::ceil_div(s.model.moe.experts, s.layout.ep);
  std::string text = fmt::format("{} experts x {} x {} x {}", local, matrices(s), s.model.hidden, s.model.moe.ffn);
  if (layers != 1) text = fmt::format("{} layers x ", layers) + text;
  if (s.layout.etp > 1) text += fmt::format(" / {}", s.layout.etp);
  return text;
}

std::int64_t moe_layers_of(const Scenario& s, std::int64_t stage) {
  std::int64_t count = 0;
  for (const std::int32_t layer : s.stages.layers_of(stage))
    count += s.model.layers[static_cast<std::size_t>(layer)] == model::LayerKind::moe ? 1 : 0;
  return count + (s.model.moe_layer_count() > 0 ? s.stages.mtp_on(stage) : 0);
}

void add_stage(const Scenario& s, std::int64_t stage, Sizes& sizes) {
  const auto& optimizer = s.optimizer;
  const plan::StageParameters p = plan::stage_parameters(s, stage);
  const plan::Shards shards = plan::shards_of(s);
  const std::string of = s.layout.pp > 1 ? " of a stage" : "";
  const std::string experts = expert_text(s, moe_layers_of(s, stage));
  const Group groups[] = {
      {"expert ", OomSource::expert_parameters, p.experts, shards.experts, experts},
      {"dense ", OomSource::dense_parameters, p.dense, shards.dense, fmt::format("{} parameters", p.dense)},
      {"", OomSource::dense_parameters, p.dense + p.experts, 0, fmt::format("{} parameters", p.dense + p.experts)},
  };
  for (const Group& group : groups) {
    const std::string name = group.name;
    const std::int64_t owned = group.shards > 0
                                   ? base::ceil_div(group.elements, group.shards)
                                   : base::ceil_div(p.dense, shards.dense) + base::ceil_div(p.experts, shards.experts);
    const bool sharded = owned < group.elements;
    const std::string part = !sharded           ? group.derivation
                             : group.shards > 0 ? group.derivation + fmt::format(" / {}", group.shards)
                                                : fmt::format("{} parameters of {}", owned, group.elements);
    if (group.shards > 0 || p.experts > 0) {
      sizes.add(name + "parameters" + of + " in one buffer (bf16)",
                group.shards == 0 ? OomSource::expert_parameters : group.source, group.elements, kD, group.derivation);
      // What exists last runs out first: moments are made in the first optimizer step, all else while loading.
      const auto state = [&](const char* what, std::int64_t bytes) {
        sizes.add(fmt::format("{} of the {}parameters{}{} ({})", what, name, of, sharded ? ", the rank's shard" : "",
                              dtype(bytes)),
                  OomSource::optimizer_states, owned, bytes, part);
        if (sharded)
          sizes.add(fmt::format("{} of the {}parameters{}, not sharded ({})", what, name, of, dtype(bytes)),
                    OomSource::optimizer_states, group.elements, bytes, group.derivation);
      };
      state("second moment (exp_avg_sq)", optimizer.exp_avg_sq_bytes);
      state("first moment (exp_avg)", optimizer.exp_avg_bytes);
      state("master weights", optimizer.master_bytes);
      const auto gradient = [&](const char* what, std::int64_t elements, std::int64_t bytes, const std::string& how) {
        sizes.add(fmt::format("{} of the {}parameters{} ({})", what, name, of, dtype(bytes)), OomSource::gradients,
                  elements, bytes, how);
      };
      gradient("gradient buffer", group.elements, optimizer.main_grad_bytes, group.derivation);
      if (sharded) gradient("gradient shard", owned, optimizer.main_grad_bytes, part);
      for (const std::int64_t bytes : {std::int64_t{4}, std::int64_t{2}})
        gradient("gradients", group.elements, bytes, group.derivation);
    }
  }
  std::set<std::string> seen;
  for (std::int64_t v = 0; v < s.stages.chunks(); ++v)
    for (const memory::ParameterTensor& tensor : memory::parameter_tensors(s, stage, v)) {
      const std::string name = (tensor.expert ? "expert " : "") + tensor.name;
      const auto source = tensor.expert ? OomSource::expert_parameters : OomSource::dense_parameters;
      const std::string how = fmt::format("{} parameters", tensor.elements);
      sizes.add(name + " (bf16)", source, tensor.elements, kD, how);
      sizes.add(name + " (fp32 copy)", OomSource::optimizer_states, tensor.elements, 4, how);
      sizes.add("weight gradient of " + name + " (bf16)", OomSource::weight_gradients, tensor.elements, kD, how);
      sizes.add("weight gradient of " + name + " (fp32)", OomSource::weight_gradients, tensor.elements, 4, how);
      const std::int64_t parts = tensor.expert ? s.layout.etp : s.layout.tp;
      if (parts > 1)
        sizes.add(name + " gathered over tensor parallelism (bf16)", OomSource::gathered_parameters,
                  tensor.elements * parts, kD, how + fmt::format(" x {}", parts));
    }
}

void add_layers(const Scenario& s, Sizes& sizes) {
  for (const model::LayerKind kind : {model::LayerKind::dense, model::LayerKind::moe}) {
    if (std::find(s.model.layers.begin(), s.model.layers.end(), kind) == s.model.layers.end()) continue;
    const auto rank = model::rank_layer_parameters(s.model, kind, {s.layout.tp, s.layout.ep, s.layout.etp});
    const std::string layer = kind == model::LayerKind::moe ? "MoE layer" : "dense layer";
    const std::int64_t all = rank.dense + rank.experts;
    for (const std::int64_t bytes : {kD, std::int64_t{4}}) {
      sizes.add(fmt::format("all parameters of one {} ({})", layer, dtype(bytes)), OomSource::gathered_parameters, all,
                bytes, fmt::format("{} parameters", all));
      if (rank.experts == 0) continue;
      sizes.add(fmt::format("experts of one layer on a rank ({})", dtype(bytes)),
                bytes == kD ? OomSource::expert_parameters : OomSource::gradients, rank.experts, bytes,
                expert_text(s, 1));
      const std::int64_t local = base::ceil_div(s.model.moe.experts, s.layout.ep);
      const std::int64_t one = local * s.model.hidden * s.model.moe.ffn / s.layout.etp;
      const std::string text = fmt::format("{} experts x {} x {}", local, s.model.hidden, s.model.moe.ffn);
      const auto source = bytes == kD ? OomSource::expert_parameters : OomSource::gradients;
      if (matrices(s) == 3)
        sizes.add(fmt::format("first matrices of a layer's experts on a rank ({})", dtype(bytes)), source, 2 * one,
                  bytes, "2 x " + text);
      sizes.add(fmt::format("one matrix of each of a layer's experts on a rank ({})", dtype(bytes)), source, one, bytes,
                text);
      // Gathered over expert parallelism: FSDP of experts, and checkpoints that are written whole.
      const std::int64_t whole = s.model.moe.experts * matrices(s) * s.model.hidden * s.model.moe.ffn;
      sizes.add(
          fmt::format("all experts of one layer ({})", dtype(bytes)), OomSource::gathered_parameters, whole, bytes,
          fmt::format("{} experts x {} x {} x {}", s.model.moe.experts, matrices(s), s.model.hidden, s.model.moe.ffn));
    }
  }
}

}  // namespace

std::vector<SizedTensor> static_sizes(const Scenario& scenario) {
  Sizes sizes;
  for (std::int64_t stage = 0; stage < scenario.layout.pp; ++stage) add_stage(scenario, stage, sizes);
  add_layers(scenario, sizes);
  const std::int64_t total = model::model_parameters(scenario.model).total();
  for (const std::int64_t bytes : {kD, std::int64_t{4}})
    sizes.add(fmt::format("the whole model on one rank, as for a checkpoint ({})", dtype(bytes)),
              OomSource::collected_checkpoint, total, bytes, fmt::format("{} parameters", total));
  return sizes.take();
}

std::vector<SizedTensor> loss_and_score_sizes(const Scenario& scenario) {
  Sizes sizes;
  const plan::Shape shape = plan::make_shape(scenario);
  const auto& training = scenario.training;
  const std::int64_t sequence = training.seq_length / shape.cp, mbs = training.micro_batch_size;
  struct Vocabulary {
    std::int64_t columns;
    const char* name;
  };
  const Vocabulary vocabularies[] = {{shape.vocab_rank, ""},
                                     {shape.vocab_rank * shape.tp, " of the whole vocabulary"},
                                     {scenario.model.vocab, " of the vocabulary without padding"}};
  struct Batch {
    std::int64_t tokens;
    std::string name, derivation;
  };
  const Batch batches[] = {
      {shape.tokens, "", fmt::format("{} x {}", mbs, sequence)},
      {sequence, " of one sequence", fmt::format("{}", sequence)},
      {mbs * training.seq_length, " of undivided sequences", fmt::format("{} x {}", mbs, training.seq_length)}};
  for (const std::int64_t bytes : {std::int64_t{4}, kD})
    for (const Vocabulary& vocabulary : vocabularies)
      for (const Batch& batch : batches) {
        if ((batch.tokens == shape.tokens && !batch.name.empty()) ||
            (vocabulary.columns == shape.vocab_rank && vocabulary.name[0] != 0))
          continue;
        sizes.add(
            fmt::format("logits, their softmax or their gradient{}{} ({})", batch.name, vocabulary.name, dtype(bytes)),
            OomSource::logits, batch.tokens * vocabulary.columns, bytes,
            fmt::format("{} x {}", batch.derivation, vocabulary.columns));
      }
  for (const std::int64_t bytes : {kD, std::int64_t{4}}) {
    const std::string type = dtype(bytes);
    sizes.add(fmt::format("attention scores, where no fused attention runs ({})", type), OomSource::scores,
              mbs * shape.heads_rank * sequence * training.seq_length, bytes,
              fmt::format("{} x {} heads x {} x {}", mbs, shape.heads_rank, sequence, training.seq_length));
    sizes.add(fmt::format("attention mask of a sequence ({})", type), OomSource::scores, sequence * training.seq_length,
              bytes, fmt::format("{} x {}", sequence, training.seq_length));
  }
  sizes.add("attention mask of a sequence (bool)", OomSource::scores, sequence * training.seq_length, 1,
            fmt::format("{} x {}", sequence, training.seq_length));
  if (scenario.model.moe_layer_count() > 0) {
    const auto& moe = scenario.model.moe;
    sizes.add("router logits of a layer (fp32)", OomSource::activations, shape.tokens_local * moe.experts, 4,
              fmt::format("{} x {}", shape.tokens_local, moe.experts));
    // Hugging Face's load-balancing loss: one-hot choices of all layers at once, int64.
    sizes.add("one-hot choices of all layers, of an auxiliary loss outside the layers (int64)", OomSource::activations,
              scenario.model.moe_layer_count() * shape.tokens * moe.top_k * moe.experts, 8,
              fmt::format("{} layers x {} x {} x {}", scenario.model.moe_layer_count(), shape.tokens, moe.top_k,
                          moe.experts));
  }
  return sizes.take();
}

}  // namespace moeplan::search
