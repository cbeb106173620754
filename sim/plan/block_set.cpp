#include "plan/block_set.h"

#include "model/parameters.h"

namespace moeplan::plan {

template <class Make>
std::int32_t BlockSet::once(const Key& key, const Make& make) {
  const auto found = known_.find(key);
  if (found != known_.end()) return found->second;
  plan_.blocks.push_back(make());
  return known_[key] = static_cast<std::int32_t>(plan_.blocks.size() - 1);
}

Block BlockSet::finished(Block block, const BlockParameters& parameters, Variant variant) const {
  const auto& scenario = *plan_.scenario;
  if (scenario.dispatch.delay_wgrad) delay_expert_wgrads(block);
  offload_activations(block, scenario);
  divide_parameters(block, scenario, parameters);
  if (variant.split) split_backward(block);
  if (variant.edge) overlap_step_edges(block, scenario, parameters);
  capture_graphs(block, scenario);
  return block;
}

BlockParameters BlockSet::layer_parameters(model::LayerKind kind) const {
  const auto& layout = plan_.scenario->layout;
  const auto p = model::rank_layer_parameters(plan_.scenario->model, kind, {layout.tp, layout.ep, layout.etp});
  return {p.dense, p.experts};
}

std::int64_t BlockSet::vocabulary_parameters() const { return plan_.shape.vocab_rank * plan_.scenario->model.hidden; }

std::int32_t BlockSet::embedding(Variant variant) {
  return once({Kind::embedding, variant, {}, {}}, [&] {
    return finished(make_embedding_block(*plan_.scenario, plan_.shape), {vocabulary_parameters(), 0}, variant);
  });
}

std::int32_t BlockSet::head(Variant variant) {
  return once({Kind::head, variant, {}, {}}, [&] {
    return finished(make_head_block(*plan_.scenario, plan_.shape), {vocabulary_parameters(), 0}, variant);
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
    return finished(make_dense_layer_block(*plan_.scenario, plan_.shape, traits),
                    layer_parameters(model::LayerKind::dense), variant);
  });
}

std::int32_t BlockSet::moe(const LayerTraits& traits, const Treatment& treatment, Variant variant) {
  return once({Kind::moe, variant, traits, treatment}, [&] {
    return finished(make_moe_layer_block(*plan_.scenario, plan_.shape, treatment, traits),
                    layer_parameters(model::LayerKind::moe), variant);
  });
}

std::int32_t BlockSet::optimizer(std::int64_t stage) {
  plan_.blocks.push_back(make_optimizer_block(*plan_.scenario, stage_parameters(*plan_.scenario, stage),
                                              stage_linear_parameters(*plan_.scenario, stage)));
  return static_cast<std::int32_t>(plan_.blocks.size() - 1);
}

}  // namespace moeplan::plan
