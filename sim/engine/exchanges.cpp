#include "engine/exchanges.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "cost/collective_links.h"
#include "cost/collectives.h"
#include "cost/dispatch.h"
#include "topology/layout.h"

namespace moeplan::engine {

namespace {

bool by_kernel(const plan::Plan& plan, const plan::Op& op) {
  return op.once_per_rank && cost::has_dispatch_kernels(plan.scenario->hardware);
}

cost::DispatchKernel kernel_of(const plan::Plan& plan, const plan::Op& op) {
  const auto& scenario = *plan.scenario;
  return {static_cast<double>(op.size.bytes_per_row), static_cast<double>(scenario.model.moe.experts),
          static_cast<double>(scenario.model.moe.top_k), scenario.dispatch.sms, op.towards_source};
}

cost::AllToAllTime time_of(const plan::Plan& plan, const plan::Op& op, std::span<const std::int64_t> matrix,
                           std::span<const std::int64_t> ranks) {
  const auto& hardware = plan.scenario->hardware;
  if (!by_kernel(plan, op)) return cost::all_to_all_time(matrix, ranks, plan.cluster, hardware);
  return cost::dispatch_time(kernel_of(plan, op), matrix, ranks, plan.cluster, hardware);
}

double fair_time_of(const plan::Plan& plan, const plan::Op& op, std::span<const std::int64_t> matrix,
                    std::span<const std::int64_t> ranks, double ports_s) {
  const auto& hardware = plan.scenario->hardware;
  if (!by_kernel(plan, op)) return cost::all_to_all_fair_time_s(matrix, ranks, plan.cluster, hardware, ports_s);
  return cost::dispatch_fair_time_s(kernel_of(plan, op), matrix, ranks, plan.cluster, hardware);
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

// What its answer was, and where it was asked first.
struct Answer {
  cost::AllToAllTime time;
  std::size_t number = 0;  // in the order of the program
  std::int64_t count = 0;
  const plan::Visit* visit = nullptr;
  std::int64_t rank = 0;
};
using Answers = std::map<Question, Answer>;

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

namespace {

// Pairs of ranks in all the exchanges of a kind of which fair sharing is worked out, one exchange at least. Where links
// neither block nor are degraded the levels hardly differ, and the first of these is enough.
constexpr std::size_t kFairPairs = std::size_t{1} << 15, kMoreFairPairs = std::size_t{1} << 18;

// Of `count` in order of their time, the first and others evenly spaced: `wanted` at most.
std::vector<std::size_t> spaced(std::size_t count, std::size_t wanted) {
  std::vector<std::size_t> places;
  if (wanted >= count) wanted = count;
  for (std::size_t i = 0; i < wanted; ++i) places.push_back(wanted == 1 ? 0 : i * (count - 1) / (wanted - 1));
  return places;
}

class FairSharing {
 public:
  explicit FairSharing(const plan::Plan& plan)
      : plan_(plan),
        most_pairs_(plan.cluster.oversubscription() > 1 || plan.cluster.degraded() ? kMoreFairPairs : kFairPairs) {}

  void of_kind(ExchangeKind& kind, std::vector<const Answers::value_type*> asked, ExchangeFactors& factors) {
    std::sort(asked.begin(), asked.end(), [](const auto* a, const auto* b) {
      if (a->second.time.total_s != b->second.time.total_s) return a->second.time.total_s > b->second.time.total_s;
      return a->second.number < b->second.number;
    });
    const std::size_t pairs = asked.front()->second.time.finish_s.size() * asked.front()->second.time.finish_s.size();
    double ports_s = 0, fair_s = 0;
    const auto places = spaced(asked.size(), std::max<std::size_t>(1, most_pairs_ / pairs));
    for (const std::size_t place : places) {
      const auto& [question, answer] = *asked[place];
      const double time_s = answer.time.total_s, shared_s = time_of(question, answer);
      kind.l1_worst_s = std::max(kind.l1_worst_s, shared_s);
      ports_s += static_cast<double>(answer.count) * time_s;
      fair_s += static_cast<double>(answer.count) * shared_s;
      factors.set(*question.op, *question.decision, question.first_rank, time_s > 0 ? shared_s / time_s : 1);
    }
    const double factor = ports_s > 0 ? fair_s / ports_s : 1;
    factors.set_mean(kind.name, factor);
    kind.l1_mean_s = kind.mean_s * factor;
    kind.distinct = static_cast<std::int64_t>(asked.size());
    kind.l1_distinct = static_cast<std::int64_t>(places.size());
  }

 private:
  // Equal matrices between the same ranks are worked out once.
  double time_of(const Question& question, const Answer& answer) {
    const auto ranks = topology::group_members(plan_.scenario->layout, question.op->group, answer.rank);
    std::vector<std::int64_t> key;
    exchange_matrix(plan_, *question.op, *answer.visit, answer.rank, ranks.size(), key);
    const std::size_t entries = key.size();
    const bool kernel = by_kernel(plan_, *question.op);
    key.push_back(kernel ? question.op->size.bytes_per_row : 0);
    key.push_back(kernel && question.op->towards_source ? 1 : 0);
    key.insert(key.end(), ranks.begin(), ranks.end());
    const auto [known, is_new] = known_.try_emplace(std::move(key), 0.0);
    if (is_new)
      known->second =
          fair_time_of(plan_, *question.op, std::span(known->first).first(entries), ranks, answer.time.total_s);
    return known->second;
  }

  const plan::Plan& plan_;
  std::size_t most_pairs_;
  std::map<std::vector<std::int64_t>, double> known_;
};

// Every exchange of the step goes to `collector`; those that differ to what is returned.
Answers ask_all(const plan::Plan& plan, Collector& collector) {
  Answers answers;
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
        Answer& found = answer->second;
        if (is_new) {
          exchange_matrix(plan, op, visit, rank, ranks.size(), matrix);
          found.time = time_of(plan, op, matrix, ranks);
          found.number = answers.size();
          found.visit = &visit;
          found.rank = rank;
        }
        ++found.count;
        collector.add(op, visit, found.time);
      }
    }
  }
  return answers;
}

}  // namespace

void ExchangeFactors::set(const plan::Op& op, const policy::LayerDecision& decision, std::int64_t first_rank,
                          double factor) {
  factors_[{&op, &decision, first_rank}] = factor;
}

double ExchangeFactors::of(const plan::Op& op, const policy::LayerDecision* decision, std::int64_t first_rank) const {
  if (const auto own = factors_.find({&op, decision, first_rank}); own != factors_.end()) return own->second;
  const auto mean = means_.find(op.name);
  return mean == means_.end() ? 1 : mean->second;
}

bool ExchangeFactors::any() const {
  return std::any_of(means_.begin(), means_.end(), [](const auto& mean) { return mean.second > 1; });
}

std::vector<ExchangeKind> exchange_kinds(const plan::Plan& plan) {
  Collector collector;
  ask_all(plan, collector);
  return collector.means();
}

Exchanges exchanges_of(const plan::Plan& plan) {
  Exchanges result;
  Collector collector;
  const Answers answers = ask_all(plan, collector);
  result.kinds = collector.means();
  std::map<std::string, std::vector<const Answers::value_type*>> by_name;
  for (const auto& entry : answers)
    if (!entry.second.time.binding.empty()) by_name[entry.first.op->name].push_back(&entry);
  FairSharing sharing(plan);
  for (ExchangeKind& kind : result.kinds) sharing.of_kind(kind, by_name.at(kind.name), result.factors);
  return result;
}

}  // namespace moeplan::engine
