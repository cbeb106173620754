#include "plan/block_set.h"

#include <algorithm>

#include "model/parameters.h"
#include "plan/host_calls.h"

namespace moeplan::plan {

SharedMatrix shared_matrix(const scenario::Scenario& scenario) {
  const auto& model = scenario.model;
  if (schedule::find_schedule(scenario.training.schedule)->splits) return {};  // not one pass of autograd
  return {model.mtp_layers > 0, model.tied_embeddings && scenario.layout.pp == 1 && !scenario.dispatch.overlap};
}

namespace {

// A layer whose group runs again by other blocks. Of the first one the input stays, and in backward an op that drops it
// (the first of the group's members gets it) and takes the gradient of the group's output meanwhile, and one that hands
// that on to the last member.
void checkpoint(Block& block, bool first) {
  block.backward.clear();
  const auto input = std::find_if(block.tensors.begin(), block.tensors.end(),
                                  [](const Tensor& tensor) { return tensor.name == "layer input"; });
  const auto id = static_cast<std::uint32_t>(input - block.tensors.begin());
  if (!first) {
    block.forward.back().frees.push_back(id);
    return;
  }
  block.tensors.push_back({TensorKind::activations_dense, "gradient of the group's output", input->size});
  const auto gradient = static_cast<std::uint32_t>(block.tensors.size() - 1);
  Op begins, ends;
  begins.name = "the group runs again";
  ends.name = "output gradient goes on";
  begins.launches = ends.launches = 0;
  begins.allocates = {gradient};
  begins.frees = {id};
  ends.frees = {gradient};
  block.backward = {begins, ends};
}

void hold_shared_gradient(Block& block) {
  const auto held = std::find_if(block.tensors.begin(), block.tensors.end(), [](const Tensor& tensor) {
    return tensor.name == "output layer returned weight gradient";
  });
  const auto id = static_cast<std::uint32_t>(held - block.tensors.begin());
  for (Op& op : block.backward) std::erase(op.frees, id);
  Op sum;
  sum.name = "gradients of a shared matrix are summed";
  sum.launches = 0;
  sum.frees = {id};
  block.backward.push_back(sum);
}

}  // namespace

template <class Make>
std::int32_t BlockSet::once(const Key& key, const Make& make) {
  const auto found = known_.find(key);
  if (found != known_.end()) return found->second;
  plan_.blocks.push_back(make());
  return known_[key] = static_cast<std::int32_t>(plan_.blocks.size() - 1);
}

Block BlockSet::finished(Block block, const BlockParameters& parameters, Variant variant) const {
  const auto& scenario = *plan_.scenario;
  fuse_experts(block, scenario);
  if (scenario.dispatch.delay_wgrad) delay_expert_wgrads(block);
  if (scenario.recompute.granularity != scenario::RecomputeGranularity::full || scenario.recompute.uniform_layers == 1)
    offload_activations(block, scenario);
  divide_parameters(block, scenario, parameters, variant.edge);
  if (variant.split) split_backward(block);
  overlap_tensor_parallel(block, scenario);
  if (variant.edge) overlap_step_edges(block, scenario, parameters);
  count_host_calls(block, scenario, plan_.shape);
  capture_graphs(block, scenario);
  exchange_in_pieces(block, scenario);
  return block;
}

Block BlockSet::layer(Block made, model::LayerKind kind, const LayerTraits& traits, Variant variant) const {
  Block block = finished(std::move(made), layer_parameters(kind), variant);
  switch (traits.role) {
    case GroupRole::none:
      break;
    case GroupRole::first:
    case GroupRole::inner:
      checkpoint(block, traits.role == GroupRole::first);
      break;
    case GroupRole::member:
      for (Op& op : block.forward) op.recompute = true;
      break;
  }
  return block;
}

BlockParameters BlockSet::layer_parameters(model::LayerKind kind) const {
  const auto& layout = plan_.scenario->layout;
  const auto p = model::rank_layer_parameters(plan_.scenario->model, kind, {layout.tp, layout.ep, layout.etp});
  const auto whole = model::layer_parameters(plan_.scenario->model, kind);
  return {p.dense, p.experts, p.dense - whole.norms - whole.router - whole.shared_gate};
}

std::int64_t BlockSet::vocabulary_parameters() const { return plan_.shape.vocab_rank * plan_.scenario->model.hidden; }

std::int32_t BlockSet::embedding(Variant variant) {
  return once({Kind::embedding, variant, {}, {}}, [&] {
    return finished(make_embedding_block(*plan_.scenario, plan_.shape), {vocabulary_parameters(), 0}, variant);
  });
}

std::int32_t BlockSet::head(Variant variant) {
  return once({Kind::head, variant, {}, {}}, [&] {
    Block block = finished(make_head_block(*plan_.scenario, plan_.shape), {vocabulary_parameters(), 0}, variant);
    if (shared_matrix(*plan_.scenario).any() && !variant.split) hold_shared_gradient(block);
    return block;
  });
}

std::int32_t BlockSet::mtp(Variant variant) {
  const std::int64_t h = plan_.scenario->model.hidden;
  return once({Kind::mtp, variant, {}, {}}, [&] {
    return finished(make_mtp_block(*plan_.scenario, plan_.shape), {2 * h * h / plan_.shape.tp, 0}, variant);
  });
}

std::int32_t BlockSet::receive(bool reversed) {
  return once({reversed ? Kind::receive_back : Kind::receive, {}, {}, {}},
              [&] { return finished(make_receive_block(*plan_.scenario, plan_.shape, reversed), {}, {}); });
}

std::int32_t BlockSet::send(bool reversed) {
  return once({reversed ? Kind::send_back : Kind::send, {}, {}, {}},
              [&] { return finished(make_send_block(*plan_.scenario, plan_.shape, reversed), {}, {}); });
}

std::int32_t BlockSet::dense(const LayerTraits& traits, Variant variant) {
  return once({Kind::dense, variant, traits, {}}, [&] {
    return layer(make_dense_layer_block(*plan_.scenario, plan_.shape, traits), model::LayerKind::dense, traits,
                 variant);
  });
}

std::int32_t BlockSet::moe(const LayerTraits& traits, const Treatment& treatment, Variant variant) {
  return once({Kind::moe, variant, traits, treatment}, [&] {
    return layer(make_moe_layer_block(*plan_.scenario, plan_.shape, treatment, traits), model::LayerKind::moe, traits,
                 variant);
  });
}

std::int32_t BlockSet::optimizer(std::int64_t stage) {
  plan_.blocks.push_back(make_optimizer_block(*plan_.scenario, stage));
  count_optimizer_calls(plan_.blocks.back(), *plan_.scenario, plan_.shape, stage);
  return static_cast<std::int32_t>(plan_.blocks.size() - 1);
}

}  // namespace moeplan::plan
