#include "memory/static_tensors.h"

#include <algorithm>
#include <array>
#include <numeric>

#include "base/checked.h"
#include "memory/replay.h"
#include "model/parameters.h"
#include "plan/shape.h"

namespace moeplan::memory {

namespace {

using Tensors = std::vector<ParameterTensor>;

std::int64_t sum(const Tensors& tensors, bool expert) {
  std::int64_t elements = 0;
  for (const ParameterTensor& tensor : tensors) elements += tensor.expert == expert ? tensor.elements : 0;
  return elements;
}

// Adds what `tensors` lack to the total (biases, sinks, norms of heads) as one tensor, or cuts what uneven divisions
// made too much.
void complete(Tensors& tensors, bool expert, std::int64_t total) {
  const std::int64_t rest = total - sum(tensors, expert);
  if (rest > 0) tensors.push_back({"small parameters", rest, expert});
  std::int64_t excess = -rest;
  for (auto it = tensors.rbegin(); it != tensors.rend() && excess > 0; ++it) {
    if (it->expert != expert) continue;
    const std::int64_t cut = std::min(excess, it->elements);
    it->elements -= cut;
    excess -= cut;
  }
}

void add_attention(const model::Architecture& arch, std::int64_t tp, Tensors& list) {
  const model::Attention& a = arch.attention;
  const std::int64_t h = arch.hidden;
  auto sharded = [&](const char* name, std::int64_t elements) {
    list.push_back({name, base::ceil_div(elements, tp), false, true});
  };
  auto whole = [&](const char* name, std::int64_t elements, bool linear = true) {
    list.push_back({name, elements, false, linear});
  };
  sharded("linear_proj", a.heads * a.v_dim() * h);
  if (a.kind == model::AttentionKind::gqa) {
    whole("linear_qkv norm", h, false);
    sharded("linear_qkv", h * (a.heads + 2 * a.kv_heads) * a.head_dim);
    return;
  }
  const std::int64_t q_input = a.q_lora_rank > 0 ? a.q_lora_rank : h;
  if (a.q_lora_rank > 0) whole("linear_q_down_proj", h * a.q_lora_rank);
  sharded("linear_q_up_proj", q_input * a.heads * a.qk_dim());
  whole("linear_kv_down_proj", h * (a.kv_lora_rank + a.qk_rope_dim));
  sharded("linear_kv_up_proj", a.kv_lora_rank * a.heads * (a.qk_nope_dim + a.v_head_dim));
}

void add_mlp(const model::Architecture& arch, std::int64_t ffn, std::int64_t tp, bool expert, Tensors& list) {
  const std::int64_t columns = arch.mlp == model::MlpKind::swiglu ? 2 * ffn : ffn;
  list.push_back({"linear_fc1", base::ceil_div(arch.hidden * columns, tp), expert, true});
  list.push_back({"linear_fc2", base::ceil_div(arch.hidden * ffn, tp), expert, true});
}

Tensors layer_tensors(const scenario::Scenario& scenario, model::LayerKind kind) {
  const auto& arch = scenario.model;
  const auto& layout = scenario.layout;
  Tensors list;
  add_attention(arch, layout.tp, list);
  list.push_back({"pre_mlp_layernorm", arch.hidden, false});
  if (kind == model::LayerKind::dense) {
    add_mlp(arch, arch.dense_ffn, layout.tp, false, list);
  } else {
    list.push_back({"router", arch.hidden * arch.moe.experts, false});
    const std::int64_t local = base::ceil_div(arch.moe.experts, layout.ep);
    // Grouped linear layers hold one tensor an expert: all first matrices, then all second ones.
    Tensors expert;
    add_mlp(arch, arch.moe.ffn, layout.etp, true, expert);
    for (const ParameterTensor& matrix : expert)
      for (std::int64_t e = 0; e < local; ++e) list.push_back(matrix);
    if (arch.moe.shared_ffn > 0) add_mlp(arch, arch.moe.shared_ffn, layout.tp, false, list);
  }
  const auto total = model::rank_layer_parameters(arch, kind, {layout.tp, layout.ep, layout.etp});
  complete(list, false, total.dense);
  complete(list, true, total.experts);
  return list;
}

void append(Tensors& list, const Tensors& more) { list.insert(list.end(), more.begin(), more.end()); }

// Pieces of one buffer that this rank owns.
struct Group {
  std::int64_t ranks = 1, index = 0;
  std::int64_t bucket = 0;  // elements of a bucket of gradients; 0: the whole buffer is one
};

Group optimizer_group(const plan::Plan& plan, std::int64_t rank, bool expert) {
  const auto& layout = plan.scenario->layout;
  const auto place = layout.place(rank);
  const plan::Shards shards = plan::shards_of(*plan.scenario);
  // Megatron's default: buckets only where reductions overlap backward.
  const std::int64_t bucket = plan.scenario->training.overlap_grad_reduce
                                  ? std::max<std::int64_t>(40'000'000, 1'000'000 * layout.dp() * layout.cp)
                                  : 0;
  // Ranks that hold the same stages divide them once more.
  const auto& scenario = *plan.scenario;
  const std::int64_t copies = scenario.optimizer.shards_states() ? scenario.stages.copies() : 1;
  const std::int64_t copy = copies > 1 && place.pp >= layout.pp / 2 ? 1 : 0;
  const auto group = [&](std::int64_t ranks, std::int64_t index) {
    return Group{ranks * copies, index % ranks * copies + copy, bucket};
  };
  return expert ? group(shards.experts, place.edp) : group(shards.dense, place.dp * layout.cp + place.cp);
}

std::vector<std::int64_t> elements_of(const Tensors& tensors, bool expert) {
  std::vector<std::int64_t> list;
  for (const ParameterTensor& tensor : tensors)
    if (tensor.expert == expert) list.push_back(tensor.elements);
  return list;
}

std::int64_t at(const plan::BytesByKind& bytes, plan::TensorKind kind) { return bytes[static_cast<std::size_t>(kind)]; }

class Events {
 public:
  std::int64_t allocate(std::string name, std::int64_t bytes, plan::TensorKind kind) {
    if (bytes <= 0) return -1;
    list_.push_back({std::move(name), bytes, -1, kind});
    held_[static_cast<std::size_t>(kind)] += bytes;
    return static_cast<std::int64_t>(list_.size()) - 1;
  }
  void release(std::int64_t event, plan::TensorKind kind) {
    if (event < 0) return;
    held_[static_cast<std::size_t>(kind)] -= list_[static_cast<std::size_t>(event)].bytes;
    list_.push_back({"", 0, event, kind});
  }
  // No more than the plan holds of the kind.
  void allocate_within(const plan::BytesByKind& wanted, std::string name, std::int64_t bytes, plan::TensorKind kind) {
    allocate(std::move(name), std::min(bytes, at(wanted, kind) - at(held_, kind)), kind);
  }
  // What the plan holds of a kind, divided over tensors as their elements are.
  void spread(const plan::BytesByKind& wanted, const Tensors& tensors, plan::TensorKind kind) {
    const std::int64_t elements = sum(tensors, false) + sum(tensors, true);
    for (const ParameterTensor& tensor : tensors)
      allocate(tensor.name + " shard",
               static_cast<std::int64_t>(static_cast<double>(at(wanted, kind)) * static_cast<double>(tensor.elements) /
                                         static_cast<double>(elements)),
               kind);
  }
  // What the plan holds of any kind beyond the tensors above, one tensor a kind.
  std::vector<StaticEvent> fill_up(const plan::BytesByKind& wanted) {
    for (std::size_t kind = 0; kind < plan::kTensorKinds; ++kind)
      allocate(std::string(plan::tensor_kind_name(static_cast<plan::TensorKind>(kind))), wanted[kind] - held_[kind],
               static_cast<plan::TensorKind>(kind));
    return std::move(list_);
  }

 private:
  std::vector<StaticEvent> list_;
  plan::BytesByKind held_{};
};

}  // namespace

std::vector<ParameterTensor> parameter_tensors(const scenario::Scenario& scenario, std::int64_t stage,
                                               std::int64_t virtual_stage) {
  const auto& arch = scenario.model;
  const auto& chunk = scenario.stages.chunk(stage, virtual_stage);
  const std::int64_t matrix = plan::make_shape(scenario).vocab_rank * arch.hidden;
  Tensors list;
  // An MTP block looks tokens up too: its stage keeps a copy of the embedding.
  if (chunk.embedding || (chunk.mtp > 0 && !scenario.stages.embedding_on(stage) &&
                          !(arch.tied_embeddings && scenario.stages.loss_on(stage))))
    list.push_back({"word_embeddings", matrix, false});
  if (chunk.embedding && arch.learned_positions > 0)
    list.push_back({"position_embeddings", arch.learned_positions * arch.hidden, false});
  for (const std::int32_t layer : chunk.layers)
    append(list, layer_tensors(scenario, arch.layers[static_cast<std::size_t>(layer)]));
  const auto mtp = model::rank_mtp_parameters(arch, {scenario.layout.tp, scenario.layout.ep, scenario.layout.etp});
  for (std::int32_t block = 0; block < chunk.mtp; ++block) {
    Tensors tensors{{"eh_proj", base::ceil_div(2 * arch.hidden * arch.hidden, scenario.layout.tp), false}};
    append(tensors, layer_tensors(scenario, arch.mtp_kind()));
    complete(tensors, false, mtp.dense);
    complete(tensors, true, mtp.experts);
    append(list, tensors);
  }
  if (chunk.loss) {
    list.push_back({"final_layernorm", arch.hidden, false});
    if (!(arch.tied_embeddings && scenario.stages.embedding_on(stage))) list.push_back({"output_layer", matrix, false});
  }
  return list;
}

std::vector<std::int64_t> owned_pieces(const std::vector<std::int64_t>& tensors, std::int64_t ranks, std::int64_t index,
                                       std::int64_t bucket_elements) {
  std::vector<std::int64_t> pieces(tensors.size(), 0);
  std::size_t end = tensors.size();  // of the tensors that are in no bucket yet
  while (end > 0) {
    std::size_t begin = end;
    std::int64_t total = 0;
    while (begin > 0 && (bucket_elements == 0 || total < bucket_elements)) total += tensors[--begin];
    const std::int64_t part = base::ceil_div(total, ranks), first = part * index, last = std::min(total, first + part);
    std::int64_t place = total;  // the first tensor of a bucket lies last
    for (std::size_t i = begin; i < end; ++i) {
      pieces[i] = std::max<std::int64_t>(std::min(last, place) - std::max(first, place - tensors[i]), 0);
      place -= tensors[i];
    }
    end = begin;
  }
  std::erase(pieces, 0);
  return pieces;
}

std::vector<StaticEvent> load_events(const plan::Plan& plan, std::int64_t rank) {
  const auto& scenario = *plan.scenario;
  const auto& optimizer = scenario.optimizer;
  const std::int64_t stage = plan.stage_of(rank);
  const plan::BytesByKind& load = plan.statics[static_cast<std::size_t>(stage)].load;
  const auto parameters = plan::TensorKind::parameters, gradients = plan::TensorKind::gradients,
             states = plan::TensorKind::optimizer;
  constexpr std::int64_t kD = plan::Shape::kElement;
  Events events;
  if (scenario.memory.given_static_bytes) return events.fill_up(load);

  if (optimizer.shards_gradients()) {
    // FSDP and the like: shards of single parameters, no buffers of the whole model.
    Tensors all;
    for (std::int64_t v = 0; v < scenario.stages.chunks(); ++v) append(all, parameter_tensors(scenario, stage, v));
    for (const plan::TensorKind kind : {parameters, gradients, states}) events.spread(load, all, kind);
    return events.fill_up(load);
  }
  // Held in fp8, a linear layer's parameter is a byte an element; copies laid out the other way come after it.
  const auto bytes_of = [&](const Tensors& tensors, bool expert) {
    std::int64_t bytes = 0;
    for (const ParameterTensor& tensor : tensors)
      if (tensor.expert == expert)
        bytes += tensor.elements * (scenario.training.fp8_param_gather && tensor.linear ? 1 : kD);
    return bytes;
  };
  std::vector<Tensors> chunks;
  std::vector<std::vector<std::int64_t>> made;
  for (std::int64_t v = 0; v < scenario.stages.chunks(); ++v) {
    chunks.push_back(parameter_tensors(scenario, stage, v));
    made.emplace_back();
    for (const ParameterTensor& tensor : chunks.back())
      made.back().push_back(events.allocate(tensor.name, bytes_of({tensor}, tensor.expert), parameters));
  }
  // Buffers of a group are made before its parameters move in, and only then is the parameters' own memory free.
  for (std::size_t v = 0; v < chunks.size(); ++v)
    for (const bool expert : {false, true}) {
      const std::int64_t elements = sum(chunks[v], expert);
      const std::string group = expert ? "expert " : "";
      const bool buffered = optimizer.shards_states() && !optimizer.orthogonalises();
      if (buffered) events.allocate(group + "parameter buffer", bytes_of(chunks[v], expert), parameters);
      events.allocate(group + "gradient buffer", optimizer.main_grad_bytes * elements, gradients);
      if (!buffered) continue;
      for (std::size_t i = chunks[v].size(); i-- > 0;)
        if (chunks[v][i].expert == expert) events.release(made[v][i], parameters);
    }
  for (const bool expert : {false, true})
    for (const Tensors& chunk : chunks) {
      const Group group = optimizer_group(plan, rank, expert);
      for (const std::int64_t elements :
           owned_pieces(elements_of(chunk, expert), group.ranks, group.index, group.bucket)) {
        // clone().float(): the copy in the parameter's own type is there until the wide one is.
        const std::int64_t clone = events.allocate("parameter shard", kD * elements, parameters);
        events.allocate_within(load, "master shard", optimizer.master_bytes * elements, states);
        events.release(clone, parameters);
      }
    }
  return events.fill_up(load);
}

plan::BytesByKind load_peak(const plan::Plan& plan, std::int64_t rank) {
  const std::vector<StaticEvent> events = load_events(plan, rank);
  plan::BytesByKind held{}, most{};
  std::int64_t total = 0, highest = 0;
  for (const StaticEvent& event : events) {
    const StaticEvent& made = event.releases < 0 ? event : events[static_cast<std::size_t>(event.releases)];
    const std::int64_t bytes = event.releases < 0 ? allocation_bytes(made.bytes) : -allocation_bytes(made.bytes);
    held[static_cast<std::size_t>(made.kind)] += bytes;
    total += bytes;
    if (total <= highest) continue;
    highest = total;
    most = held;
  }
  return most;
}

std::vector<StaticEvent> moment_events(const plan::Plan& plan, std::int64_t rank) {
  const auto& scenario = *plan.scenario;
  const std::int64_t stage = plan.stage_of(rank);
  const plan::BytesByKind& moments = plan.statics[static_cast<std::size_t>(stage)].moments;
  Events events;
  if (at(moments, plan::TensorKind::optimizer) > 0)
    for (const bool expert : {false, true})
      for (std::int64_t v = 0; v < scenario.stages.chunks(); ++v) {
        const Group group = optimizer_group(plan, rank, expert);
        const auto elements = elements_of(parameter_tensors(scenario, stage, v), expert);
        for (const std::int64_t piece : owned_pieces(elements, group.ranks, group.index, group.bucket)) {
          events.allocate_within(moments, "exp_avg", scenario.optimizer.exp_avg_bytes * piece,
                                 plan::TensorKind::optimizer);
          events.allocate_within(moments, "exp_avg_sq", scenario.optimizer.exp_avg_sq_bytes * piece,
                                 plan::TensorKind::optimizer);
        }
      }
  return events.fill_up(moments);
}

}  // namespace moeplan::memory
