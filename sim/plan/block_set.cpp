#include "plan/block_set.h"

#include "model/parameters.h"
#include "plan/host_calls.h"

namespace moeplan::plan {

template <class Make>
std::int32_t BlockSet::once(const Key& key, const Make& make) {
  const auto found = known_.find(key);
  if (found != known_.end()) return found->second;
  plan_.blocks.push_back(make());
  return known_[key] = static_cast<std::int32_t>(plan_.blocks.size() - 1);
}

Block BlockSet::finished(Block block, const BlockParameters& parameters, bool edge) const {
  const auto& scenario = *plan_.scenario;
  fuse_experts(block, scenario);
  if (scenario.dispatch.delay_wgrad) delay_expert_wgrads(block);
  offload_activations(block, scenario);
  divide_parameters(block, scenario, parameters);
  if (edge) overlap_step_edges(block, scenario, parameters);
  count_host_calls(block, scenario, plan_.shape);
  capture_graphs(block, scenario);
  return block;
}

BlockParameters BlockSet::layer_parameters(model::LayerKind kind) const {
  const auto& layout = plan_.scenario->layout;
  const auto p = model::rank_layer_parameters(plan_.scenario->model, kind, {layout.tp, layout.ep, layout.etp});
  return {p.dense, p.experts};
}

std::int64_t BlockSet::vocabulary_parameters() const { return plan_.shape.vocab_rank * plan_.scenario->model.hidden; }

std::int32_t BlockSet::embedding(bool edge) {
  return once({Kind::embedding, edge, {}, {}}, [&] {
    return finished(make_embedding_block(*plan_.scenario, plan_.shape), {vocabulary_parameters(), 0}, edge);
  });
}

std::int32_t BlockSet::head(bool edge) {
  return once({Kind::head, edge, {}, {}}, [&] {
    return finished(make_head_block(*plan_.scenario, plan_.shape), {vocabulary_parameters(), 0}, edge);
  });
}

std::int32_t BlockSet::mtp(bool edge) {
  const std::int64_t h = plan_.scenario->model.hidden;
  return once({Kind::mtp, edge, {}, {}}, [&] {
    return finished(make_mtp_block(*plan_.scenario, plan_.shape), {2 * h * h / plan_.shape.tp, 0}, edge);
  });
}

std::int32_t BlockSet::receive() {
  return once({Kind::receive, false, {}, {}},
              [&] { return finished(make_receive_block(*plan_.scenario, plan_.shape), {}, false); });
}

std::int32_t BlockSet::send() {
  return once({Kind::send, false, {}, {}},
              [&] { return finished(make_send_block(*plan_.scenario, plan_.shape), {}, false); });
}

std::int32_t BlockSet::dense(const LayerTraits& traits, bool edge) {
  return once({Kind::dense, edge, traits, {}}, [&] {
    return finished(make_dense_layer_block(*plan_.scenario, plan_.shape, traits),
                    layer_parameters(model::LayerKind::dense), edge);
  });
}

std::int32_t BlockSet::moe(const LayerTraits& traits, const Treatment& treatment, bool edge) {
  return once({Kind::moe, edge, traits, treatment}, [&] {
    return finished(make_moe_layer_block(*plan_.scenario, plan_.shape, treatment, traits),
                    layer_parameters(model::LayerKind::moe), edge);
  });
}

std::int32_t BlockSet::optimizer(std::int64_t stage) {
  plan_.blocks.push_back(make_optimizer_block(*plan_.scenario, stage_parameters(*plan_.scenario, stage),
                                              stage_linear_parameters(*plan_.scenario, stage)));
  count_optimizer_calls(plan_.blocks.back(), *plan_.scenario, plan_.shape, stage);
  return static_cast<std::int32_t>(plan_.blocks.size() - 1);
}

}  // namespace moeplan::plan
