#include "engine/op_costs.h"

#include <algorithm>

#include "cost/collectives.h"
#include "cost/dispatch.h"
#include "cost/kernels.h"
#include "engine/exchanges.h"
#include "engine/picoseconds.h"

namespace moeplan::engine {

using plan::Work;

OpCosts::OpCosts(const plan::Plan& plan, const ExchangeFactors* factors)
    : plan_(plan), factors_(factors), repeat_(plan.decisions.size() < plan.decision_of.size()) {
  const auto& hardware = plan.scenario->hardware;
  sync_ps_ = to_ps(plan, "a wait of the host", hardware.time_scale.host * hardware.host.sync.value);
}

std::size_t OpCosts::Hash::operator()(const Key& key) const {
  auto x = static_cast<std::uint64_t>(key.what) * 0x9e3779b97f4a7c15U;
  x ^= reinterpret_cast<std::uintptr_t>(key.decision) * 0xbf58476d1ce4e5b9U + (x >> 29);
  x ^= static_cast<std::uint64_t>(key.group) * 0x94d049bb133111ebU + (x >> 31);
  return static_cast<std::size_t>(x ^ (x >> 32));
}

std::int64_t OpCosts::shape_of(const plan::Op& op) {
  const auto [known, is_new] = shape_of_op_.try_emplace(&op, 0);
  if (!is_new) return known->second;
  const plan::Rows& rows = op.size.rows;
  const Shape shape{op.work,     op.group,   op.pass,       op.precision,      op.access,
                    rows.kind,   rows.chunk, rows.backward, op.towards_source, op.once_per_rank,
                    op.launches, op.n,       op.k,          op.size.bytes,     op.size.bytes_per_row};
  return known->second = shapes_.try_emplace(shape, static_cast<std::int64_t>(shapes_.size())).first->second;
}

const OpCosts::Group& OpCosts::group_of(topology::GroupKind kind, std::int64_t rank) {
  const auto& layout = plan_.scenario->layout;
  const std::int64_t index = topology::group_index(layout, kind, rank);
  const auto [entry, is_new] = groups_.try_emplace({static_cast<int>(kind), index});
  Group& group = entry->second;
  if (!is_new) return group;
  group.index = index;
  group.ranks = topology::group_members(layout, kind, rank);
  for (std::size_t i = 0; i < group.ranks.size(); ++i)
    if (plan_.representative_of(group.ranks[i]) == group.ranks[i]) group.places.push_back(i);
  group.standing = static_cast<std::int32_t>(group.places.size());
  return group;
}

std::int64_t OpCosts::issue_ps(const plan::Op& op) const {
  if (op.captured) return 0;
  const auto& host = plan_.scenario->hardware.host;
  return to_ps(plan_, op.name,
               plan_.scenario->hardware.time_scale.host *
                   (op.calls > 0 ? host.operation.value * op.calls : host.launch.value * op.launches));
}

std::int64_t OpCosts::sync_ps() const { return sync_ps_; }

const policy::LayerDecision* OpCosts::decision(const plan::Visit& visit, std::int64_t rank) const {
  if (visit.moe_layer < 0) return nullptr;
  return &plan_.decision(visit.moe_layer, visit.microbatch, plan_.group_of(rank));
}

bool OpCosts::by_rows(const plan::Op& op) {
  if (op.work == Work::grouped_gemm || op.work == Work::all_to_all) return true;
  return op.work != Work::fixed && op.size.bytes_per_row != 0;
}

std::int64_t OpCosts::local_ps(const plan::Op& op, const plan::Visit& visit, std::int64_t rank) {
  if (!by_rows(op)) return to_ps(plan_, op.name, local_s(op, visit, rank));
  // Of a folded plan only the first rank is asked for.
  if (plan_.fold == 1 || !repeat_) return to_ps(plan_, op.name, local_s(op, visit, rank));
  return member_ps(op, visit, rank)[static_cast<std::size_t>(plan_.member_of(rank))];
}

std::span<const std::int64_t> OpCosts::member_ps(const plan::Op& op, const plan::Visit& visit, std::int64_t rank) {
  // Where decisions are used once, what recomputation asks for again is worth keeping if it is dear.
  const bool keeps = repeat_ || (op.work == Work::grouped_gemm && op.pass == cost::GemmPass::forward);
  std::vector<std::int64_t>* ps = &members_;
  if (keeps) {
    const auto [entry, is_new] = local_.try_emplace(Key{shape_of(op), decision(visit, rank), 0});
    if (!is_new) return entry->second;
    ps = &entry->second;
  }
  const auto& layout = plan_.scenario->layout;
  const std::int64_t first = plan_.group_of(rank) * layout.ep * layout.etp;
  ps->resize(static_cast<std::size_t>(layout.ep));
  for (std::int64_t member = 0; member < layout.ep; ++member)
    (*ps)[static_cast<std::size_t>(member)] = to_ps(plan_, op.name, local_s(op, visit, first + member * layout.etp));
  return *ps;
}

double OpCosts::local_s(const plan::Op& op, const plan::Visit& visit, std::int64_t rank) const {
  const auto& profile = plan_.scenario->hardware;
  if (op.work == Work::fixed) return op.seconds;
  if (op.work == Work::host_copy) {
    const std::int64_t bytes = plan_.bytes(op.size, visit, rank);
    return bytes == 0 ? 0 : cost::host_copy_time_s(static_cast<double>(bytes), profile);
  }
  if (op.work == Work::row_memory) {
    const std::int64_t bytes = plan_.bytes(op.size, visit, rank);
    if (bytes == 0) return 0;
    // Several small kernels share the bytes; each pays the floor of a kernel.
    return cost::memory_bound_time_s(static_cast<double>(bytes), op.access, profile) +
           profile.time_scale.memory_bound * profile.memory_bound.floor.value * (op.launches - 1);
  }
  const policy::LayerDecision& decided = *decision(visit, rank);
  const auto& chunks = op.size.rows.backward ? decided.rows_of_backward() : decided.forward_rows;
  const auto rows = chunks[static_cast<std::size_t>(op.size.rows.chunk)].rows_on(plan_.member_of(rank));
  return cost::grouped_gemm_time_s(rows, op.n, op.k, op.pass, profile, op.precision);
}

std::span<const std::int64_t> OpCosts::group_ps(const plan::Op& op, const plan::Visit& visit, std::int64_t rank,
                                                const Group& group) {
  std::vector<std::int64_t>* known = nullptr;
  bool is_new = true;
  if (op.work == Work::all_to_all) {
    const auto entry = exchange_.try_emplace(Key{shape_of(op), decision(visit, rank), group.index});
    known = &entry.first->second;
    is_new = entry.second;
  } else if (!by_rows(op)) {  // those of row counts are known by their size
    const auto entry = collective_.try_emplace({&op, group.index});
    known = &entry.first->second;
    is_new = entry.second;
  }
  if (is_new) {
    price(op, visit, rank, group);
    if (known == nullptr) return scratch_;
    *known = scratch_;
  }
  return *known;
}

void OpCosts::price(const plan::Op& op, const plan::Visit& visit, std::int64_t rank, const Group& group) {
  const std::size_t members = group.ranks.size();
  if (members == 1) {  // nothing to exchange
    scratch_.assign(1, 0);
    return;
  }
  if (op.work != Work::collective) return price_exchange(op, visit, rank, group);
  const std::span<const std::int64_t> ranks(group.ranks);
  const auto taking_part = op.members > 0 && op.members < static_cast<std::int64_t>(members)
                               ? ranks.first(static_cast<std::size_t>(op.members))
                               : ranks;
  const double seconds = op.repeats * collective_s(op, plan_.bytes(op.size, visit, rank), taking_part);
  scratch_.assign(members, to_ps(plan_, op.name, seconds));
}

void OpCosts::price_exchange(const plan::Op& op, const plan::Visit& visit, std::int64_t rank, const Group& group) {
  const auto& scenario = *plan_.scenario;
  const std::size_t members = group.ranks.size();
  exchange_matrix(plan_, op, visit, rank, members, matrix_);
  finish_.assign(members, 0.0);
  if (op.once_per_rank && cost::has_dispatch_kernels(scenario.hardware)) {
    const cost::DispatchKernel kernel{
        static_cast<double>(op.size.bytes_per_row), static_cast<double>(scenario.model.moe.experts),
        static_cast<double>(scenario.model.moe.top_k), scenario.dispatch.sms, op.towards_source};
    cost::dispatch_finish(kernel, matrix_, group.ranks, plan_.cluster, scenario.hardware, finish_);
  } else {
    cost::all_to_all_finish(matrix_, group.ranks, plan_.cluster, scenario.hardware, finish_);
  }
  if (factors_ != nullptr) {
    const double factor = factors_->of(op, decision(visit, rank), group.ranks.front());
    for (double& seconds : finish_) seconds *= factor;
  }
  scratch_.resize(members);
  for (const std::size_t place : group.places) scratch_[place] = to_ps(plan_, op.name, finish_[place]);
}

double OpCosts::collective_s(const plan::Op& op, std::int64_t bytes, std::span<const std::int64_t> ranks) {
  const auto key = std::make_tuple(static_cast<int>(op.collective) * 1'000'000 + static_cast<int>(ranks.size()), bytes,
                                   ranks.front(), ranks.size() > 1 ? ranks.back() : 0);
  const auto found = collective_memo_.find(key);
  if (found != collective_memo_.end()) return found->second;
  const double seconds = cost::collective_time_s(op.collective, static_cast<double>(bytes), ranks, plan_.cluster,
                                                 plan_.scenario->hardware);
  collective_memo_.emplace(key, seconds);
  return seconds;
}

std::int64_t OpCosts::send_ps(const plan::Op& op, std::int64_t from, std::int64_t to) const {
  return to_ps(
      plan_, op.name,
      cost::send_time_s(static_cast<double>(op.size.bytes), from, to, plan_.cluster, plan_.scenario->hardware));
}

}  // namespace moeplan::engine
