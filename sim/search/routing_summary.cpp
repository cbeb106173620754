#include "search/routing_summary.h"

#include <algorithm>
#include <map>

#include "routing/statistics.h"

namespace moeplan::search {

RoutingCollector::RoutingCollector(const scenario::Scenario& scenario) : scenario_(scenario) {
  for (int layer : scenario.model.moe_layer_ids()) {
    LayerRouting routing;
    routing.layer = layer;
    routing.chunks_by_microbatch.assign(static_cast<std::size_t>(scenario.microbatches()), 0);
    layers_.push_back(std::move(routing));
  }
}

double RoutingCollector::moved_by_instance(const policy::LayerDecision& decision) const {
  const auto& recompute = scenario_.recompute;
  const bool again = recompute.granularity == scenario::RecomputeGranularity::full ||
                     recompute.granularity == scenario::RecomputeGranularity::selective_op ||
                     (recompute.granularity == scenario::RecomputeGranularity::selective &&
                      recompute.has(scenario::RecomputeModule::moe));
  // Weights are sent a second time where forward does not keep them for backward.
  const double sends = plan::holds_activations(decision.backward) && !again ? 1 : 2;
  const double elements =
      3.0 * static_cast<double>(scenario_.model.hidden) * static_cast<double>(scenario_.model.moe.ffn);
  return elements * (sends * plan::Shape::kElement + static_cast<double>(scenario_.optimizer.main_grad_bytes));
}

void RoutingCollector::add(const plan::Plan& plan) {
  const std::int64_t ep = scenario_.layout.ep;
  iterations_ += 1;
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    LayerRouting& layer = layers_[l];
    std::map<std::size_t, std::int64_t> uses;  // of decisions: their rows are added up once
    std::vector<std::int64_t> expert_rows(static_cast<std::size_t>(scenario_.model.moe.experts), 0);
    for (std::int64_t mb = 0; mb < scenario_.microbatches(); ++mb) {
      for (std::int64_t group = 0; group < plan.groups_per_stage(); ++group) {
        const std::size_t number = plan.decision_number(static_cast<std::int64_t>(l), mb, group);
        const auto& decision = plan.decisions[number];
        auto& chunks = layer.chunks_by_microbatch[static_cast<std::size_t>(mb)];
        chunks = std::max(chunks, decision.chunks);
        ++layer.decisions_by_chunks[decision.chunks];
        retained_ += decision.retained_rows;
        routed_ += decision.routed_rows;
        retained_score_ += decision.retained_score;
        total_score_ += decision.total_score;
        selects_ = selects_ || decision.select;
        dropped_ += decision.dropped_rows;
        for (const std::int32_t instances : decision.replicas) moved_bytes_ += instances * moved_by_instance(decision);
        if (++uses[number] > 1) continue;
        for (std::int64_t member = 0; member < ep; ++member) {
          std::int64_t received = 0;
          for (std::size_t chunk = 0; chunk < decision.forward_rows.size(); ++chunk) {
            received += plan.summed_rows(number, {plan::Rows::Kind::received, false, static_cast<std::int16_t>(chunk)},
                                         member, false);
          }
          if (received > layer.max_received_rows) {
            layer.max_received_rows = received;
            layer.max_received_over_mean = static_cast<double>(received * ep) / std::max(1.0, decision.routed_rows);
            const bool from_the_end = 2 * mb >= scenario_.microbatches();  // where two ranks hold the layer
            const std::int64_t stage = scenario_.stages.stage_of_layer(layer.layer, from_the_end);
            layer.max_received_rank =
                stage * scenario_.layout.stage_size() + (group * ep + member) * scenario_.layout.etp;
          }
        }
      }
    }
    for (const auto& [number, times] : uses)
      for (const auto& rows : plan.decisions[number].forward_rows)
        for (std::size_t i = 0; i < rows.instance_rows.size(); ++i)
          expert_rows[static_cast<std::size_t>(rows.expert_of(static_cast<std::int64_t>(i)))] +=
              times * rows.instance_rows[i];
    layer.max_over_mean_expert += routing::max_over_mean(expert_rows);
    layer.max_over_mean_rank += routing::rank_max_over_mean(expert_rows, ep);
  }
}

RoutingSummary RoutingCollector::summary() const {
  RoutingSummary summary;
  if (scenario_.loads) {
    const auto description = scenario_.loads->describe();
    summary.source = description.source;
    summary.notes = description.notes;
    summary.repeats = description.repeats;
  } else {
    summary.source = "no routed experts";
  }
  summary.tokens = scenario_.training.global_batch_size * scenario_.training.seq_length;
  summary.layers = layers_;
  for (std::size_t l = 0; l < layers_.size(); ++l) {
    LayerRouting& layer = summary.layers[l];
    layer.max_over_mean_expert /= static_cast<double>(iterations_);
    layer.max_over_mean_rank /= static_cast<double>(iterations_);
    summary.max_over_mean_expert += layer.max_over_mean_expert / static_cast<double>(layers_.size());
    summary.max_over_mean_rank += layer.max_over_mean_rank / static_cast<double>(layers_.size());
    summary.worst_max_over_mean_expert = std::max(summary.worst_max_over_mean_expert, layer.max_over_mean_expert);
    summary.worst_max_over_mean_rank = std::max(summary.worst_max_over_mean_rank, layer.max_over_mean_rank);
  }
  summary.selects = selects_;
  if (routed_ > 0) summary.retained_row_share = retained_ / routed_;
  if (dropped_ > 0) summary.dropped_share = dropped_ / (dropped_ + routed_);
  if (iterations_ > 0) summary.moved_bytes = moved_bytes_ / iterations_;
  if (total_score_ > 0) summary.retained_score_share = retained_score_ / total_score_;
  return summary;
}

}  // namespace moeplan::search
