#include "engine/exchanges.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "cost/collectives.h"
#include "cost/dispatch.h"
#include "topology/layout.h"

namespace moeplan::engine {

namespace {

bool by_kernel(const plan::Plan& plan, const plan::Op& op) {
  return op.once_per_rank && cost::has_dispatch_kernels(plan.scenario->hardware);
}

cost::AllToAllTime time_of(const plan::Plan& plan, const plan::Op& op, std::span<const std::int64_t> matrix,
                           std::span<const std::int64_t> ranks) {
  const auto& scenario = *plan.scenario;
  if (!by_kernel(plan, op)) return cost::all_to_all_time(matrix, ranks, plan.cluster, scenario.hardware);
  return cost::dispatch_time(
      {static_cast<double>(op.size.bytes_per_row), static_cast<double>(scenario.model.moe.experts),
       static_cast<double>(scenario.model.moe.top_k), scenario.dispatch.sms, op.towards_source},
      matrix, ranks, plan.cluster, scenario.hardware);
}

// "nic receive of rank 12 (...)" -> "nic receive".
std::string resource_of(const std::string& binding) { return binding.substr(0, binding.find(" of ")); }

class Collector {
 public:
  void add(const plan::Op& op, const plan::Visit& visit, const cost::AllToAllTime& time) {
    if (time.binding.empty()) return;  // nothing is sent
    const auto [entry, is_new] = place_.try_emplace(op.name, kinds_.size());
    if (is_new) kinds_.emplace_back().name = op.name;
    ExchangeKind& kind = kinds_[entry->second];
    ++kind.count;
    kind.mean_s += time.total_s;
    if (time.total_s > kind.worst_s) {
      kind.worst_s = time.total_s;
      kind.worst_binding = time.binding;
      kind.worst_slack_s = time.slack_s;
      kind.worst_layer = visit.layer;
      kind.worst_microbatch = visit.microbatch;
    }
    const std::string resource = resource_of(time.binding);
    auto bound = std::find_if(kind.bounds.begin(), kind.bounds.end(),
                              [&](const ExchangeKind::Bound& one) { return one.resource == resource; });
    if (bound == kind.bounds.end()) bound = kind.bounds.insert(bound, {resource, 0, 0});
    ++bound->count;
    bound->slack_s += time.slack_s;
  }

  std::vector<ExchangeKind> means() {
    for (ExchangeKind& kind : kinds_) {
      kind.mean_s /= static_cast<double>(kind.count);
      for (auto& bound : kind.bounds) bound.slack_s /= static_cast<double>(bound.count);
      std::stable_sort(kind.bounds.begin(), kind.bounds.end(),
                       [](const auto& a, const auto& b) { return a.count > b.count; });
    }
    return std::move(kinds_);
  }

 private:
  std::vector<ExchangeKind> kinds_;
  std::map<std::string, std::size_t> place_;
};

// What decides an exchange's time: equal ones are worked out once.
struct Question {
  const plan::Op* op;
  const policy::LayerDecision* decision;
  std::int64_t first_rank;
  auto operator<=>(const Question&) const = default;
};

// Kinds of groups that exchange rows.
std::set<topology::GroupKind> kinds_of_groups(const plan::Plan& plan) {
  std::set<topology::GroupKind> kinds;
  for (const plan::Block& block : plan.blocks)
    for (const auto* ops : {&block.forward, &block.backward, &block.weights})
      for (const plan::Op& op : *ops)
        if (op.work == plan::Work::all_to_all) kinds.insert(op.group);
  return kinds;
}

}  // namespace

void exchange_matrix(const plan::Plan& plan, const plan::Op& op, const plan::Visit& visit, std::int64_t rank,
                     std::size_t members, std::vector<std::int64_t>& matrix) {
  const auto& decision = plan.decision(visit.moe_layer, visit.microbatch, plan.group_of(rank));
  const auto& chunks = op.size.rows.backward ? decision.rows_of_backward() : decision.forward_rows;
  const std::vector<std::int32_t>& rows =
      op.size.rows.of_instances() ? decision.replicas : chunks[static_cast<std::size_t>(op.size.rows.chunk)].matrix;
  const std::size_t p = members;
  const auto etp = static_cast<std::size_t>(plan.scenario->layout.etp);
  matrix.resize(p * p);
  const auto at = [&](std::size_t i, std::size_t j) -> std::int64_t& {
    return matrix[op.towards_source ? j * p + i : i * p + j];
  };
  if (!op.once_per_rank) {
    for (std::size_t i = 0; i < p; ++i)
      for (std::size_t j = 0; j < p; ++j)
        // Expert tensor parallel peers each carry their share of a member's rows.
        at(i, j) = rows[i * p + j] * op.size.bytes_per_row / plan.scenario->layout.etp;
    return;
  }
  const bool kernels = by_kernel(plan, op);
  const double sent_bytes = plan.distinct_share * static_cast<double>(op.size.bytes_per_row);
  for (std::size_t i = 0; i < p; ++i)
    for (std::size_t j = 0; j < p; ++j) {
      // Each expert tensor parallel peer sends its tokens to all peers of their experts.
      const std::int64_t routed = rows[i / etp * (p / etp) + j / etp] / static_cast<std::int64_t>(etp);
      if (kernels)
        matrix[i * p + j] = routed;
      else
        at(i, j) = std::llround(static_cast<double>(routed) * sent_bytes);
    }
}

std::vector<ExchangeKind> exchange_kinds(const plan::Plan& plan) {
  Collector collector;
  std::map<Question, cost::AllToAllTime> answers;
  std::vector<std::int64_t> matrix;
  const auto& layout = plan.scenario->layout;
  const std::set<topology::GroupKind> kinds = kinds_of_groups(plan);
  for (std::int64_t rank = 0; rank < layout.world; ++rank) {
    if (plan.representative_of(rank) != rank) continue;
    std::map<topology::GroupKind, std::vector<std::int64_t>> groups;  // those that it speaks for
    for (const topology::GroupKind kind : kinds) {
      std::vector<std::int64_t> ranks = topology::group_members(layout, kind, rank);
      const auto stands = [&](std::int64_t r) { return plan.representative_of(r) == r; };
      if (ranks.size() > 1 && *std::find_if(ranks.begin(), ranks.end(), stands) == rank)
        groups.emplace(kind, std::move(ranks));
    }
    if (groups.empty()) continue;
    for (const plan::Visit& visit : plan.program_of(rank).visits) {
      const auto& ops = plan::ops_of(plan.blocks[static_cast<std::size_t>(visit.block)], visit.direction);
      const std::size_t end = std::min<std::size_t>(visit.end_op, ops.size());
      for (std::size_t o = visit.first_op; o < end; ++o) {
        const plan::Op& op = ops[o];
        if (op.work != plan::Work::all_to_all) continue;
        const auto group = groups.find(op.group);
        if (group == groups.end()) continue;
        const std::vector<std::int64_t>& ranks = group->second;
        const auto& decision = plan.decision(visit.moe_layer, visit.microbatch, plan.group_of(rank));
        const auto [answer, is_new] = answers.try_emplace(Question{&op, &decision, ranks.front()});
        if (is_new) {
          exchange_matrix(plan, op, visit, rank, ranks.size(), matrix);
          answer->second = time_of(plan, op, matrix, ranks);
        }
        collector.add(op, visit, answer->second);
      }
    }
  }
  return collector.means();
}

}  // namespace moeplan::engine
