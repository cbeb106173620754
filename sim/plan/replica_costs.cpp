#include "plan/replica_costs.h"

#include <array>

#include "cost/collectives.h"
#include "cost/kernels.h"
#include "plan/shape.h"
#include "plan/static_memory.h"
#include "topology/cluster.h"

namespace moeplan::plan {

namespace {

constexpr std::int64_t kFewRows = 4096, kManyRows = 8192;

// Slope of a GEMM's time where its launch and its weights no longer count.
double row_s(std::int64_t n, std::int64_t k, cost::GemmPass pass, const topology::HardwareProfile& profile) {
  const std::array<std::int64_t, 1> few = {kFewRows}, many = {kManyRows};
  return (cost::grouped_gemm_time_s(many, n, k, pass, profile) - cost::grouped_gemm_time_s(few, n, k, pass, profile)) /
         static_cast<double>(kManyRows - kFewRows);
}

}  // namespace

policy::ReplicaCosts replica_costs(const scenario::Scenario& scenario, std::int64_t stage) {
  policy::ReplicaCosts costs;
  const auto& lrmoe = scenario.policies.lrmoe;
  const auto& layout = scenario.layout;
  if (!lrmoe || lrmoe->replicas == policy::LrmoeSettings::Replicas::none || layout.ep < 2) return costs;
  const auto& profile = scenario.hardware;
  const std::int64_t h = scenario.model.hidden, g = scenario.model.moe.ffn;
  using Pass = cost::GemmPass;
  const double first = row_s(2 * g, h, Pass::forward, profile);
  costs.forward_row_s = first + row_s(h, g, Pass::forward, profile);
  costs.backward_row_s = lrmoe->mode == policy::LrmoeSettings::Mode::redispatch ? first : 0;
  for (const Pass pass : {Pass::dgrad, Pass::wgrad})
    costs.backward_row_s += row_s(2 * g, h, pass, profile) + row_s(h, g, pass, profile);
  const double elements = 3.0 * static_cast<double>(h) * static_cast<double>(g);
  costs.weight_bytes = elements * Shape::kElement;
  costs.gradient_bytes = elements * static_cast<double>(scenario.optimizer.main_grad_bytes);
  const topology::Cluster cluster(profile, layout.world);
  const std::int64_t rank = stage * layout.stage_size();
  costs.bytes_per_s =
      costs.weight_bytes / cost::send_time_s(costs.weight_bytes, rank, rank + layout.ep - 1, cluster, profile);
  const double held = lrmoe_layers_held(scenario, stage);
  costs.instance_rows = (costs.weight_bytes * held + costs.gradient_bytes) / lrmoe_row_bytes(scenario, stage);
  const auto per_node = static_cast<std::int64_t>(profile.network.gpus_per_node.value);
  costs.members_per_node = layout.ep % per_node == 0 ? per_node : 0;
  return costs;
}

}  // namespace moeplan::plan
