#include "engine/plan_source.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <string>

#include "base/check.h"
#include "base/error.h"
#include "cost/collectives.h"
#include "cost/dispatch.h"
#include "cost/kernels.h"
#include "engine/exchanges.h"

namespace moeplan::engine {

namespace {

using plan::Stream;
using plan::Work;

constexpr double kPicosecond = 1e-12;

// Sums of picoseconds stay far below 2^63: an operation is bounded, and so is the step (done()).
constexpr double kLongestOp_s = 9000;
constexpr std::int64_t kLongestStep_ps = std::int64_t{1} << 61;  // 26 days

[[noreturn]] void too_long(const plan::Plan& plan, const std::string& what, double seconds) {
  throw base::Error({"profile " + plan.scenario->hardware.id, 0, 0, {}},
                    fmt::format("{} would take {:.3g} s, more than can be simulated", what, seconds),
                    "a rate of the profile is far too low, or the step far too large");
}

std::int64_t to_ps(const plan::Plan& plan, const std::string& what, double seconds) {
  if (!(seconds <= kLongestOp_s)) too_long(plan, what, seconds);
  return std::llround(seconds / kPicosecond);
}

using plan::stream_bit;
// The chain of ops that wait for each other: all but the sends, which run beside it.
constexpr std::uint16_t kChain = stream_bit(Stream::compute) | stream_bit(Stream::ep) | stream_bit(Stream::ep_behind) |
                                 stream_bit(Stream::tp) | stream_bit(Stream::dp) |
                                 stream_bit(Stream::receive_previous) | stream_bit(Stream::receive_next);
// Of a microbatch that takes turns with another: its own exchanges and pipeline neighbour, and the shared rest.
constexpr std::uint16_t kForwardLane =
    kChain & ~(stream_bit(Stream::ep_behind) | stream_bit(Stream::receive_next)) & 0xffff;
constexpr std::uint16_t kBackwardLane =
    kChain & ~(stream_bit(Stream::ep) | stream_bit(Stream::receive_previous)) & 0xffff;
constexpr std::uint16_t kReceives = stream_bit(Stream::receive_previous) | stream_bit(Stream::receive_next);
constexpr std::uint16_t kTensorParallel = stream_bit(Stream::tp) | stream_bit(Stream::tp_beside);
constexpr std::uint16_t kExchanges = stream_bit(Stream::ep) | stream_bit(Stream::ep_behind);

std::uint16_t chain_of(const plan::Op& op, plan::Lane lane) {
  const auto tp = static_cast<std::uint16_t>(op.beside_tp ? stream_bit(Stream::tp) : 0);
  if (op.beside_exchange) return static_cast<std::uint16_t>(kChain & ~kExchanges & ~tp);
  if (lane == plan::Lane::alone) return static_cast<std::uint16_t>(kChain & ~tp);
  const auto own = static_cast<std::uint16_t>((lane == plan::Lane::forward ? kForwardLane : kBackwardLane) & ~tp);
  // Exchanges of both share the links: one after the other.
  return op.stream == Stream::ep ? own | kExchanges : own;
}

// Gathered parameters and scattered gradients share the links, and so do exchanges of two microbatches: one after the
// other. A copy back follows the copies out.
constexpr std::uint16_t kDivided = stream_bit(Stream::gather) | stream_bit(Stream::reduce);

std::uint16_t shared_links(const plan::Op& op) {
  if (op.stream == Stream::gather || op.stream == Stream::reduce) return kDivided;
  return op.stream == Stream::from_host ? stream_bit(Stream::to_host) : 0;
}

// Rendezvous keys: what meets (a group kind, or a flow over a pipeline border), which, and the how manyth time.
constexpr std::int64_t kFirstFlow = topology::kAllGroupKinds;  // four flows; at most 31
std::int64_t make_key(std::int64_t what, std::int64_t which, std::int64_t sequence) {
  return (what << 58) | (which << 34) | sequence;
}

// What crosses a pipeline border: activations or gradients, of chunks that run to the last rank or to the first.
struct Flow {
  bool activations, reversed;
  bool towards_next() const { return activations != reversed; }
  std::int64_t number() const { return (reversed ? 2 : 0) + (activations ? 0 : 1); }
};

Flow flow_of(const plan::Op& op) {
  const bool activations = op.stream == Stream::send_next || op.stream == Stream::receive_previous ||
                           op.stream == Stream::send_activations_back;
  return {activations, op.reversed};
}

}  // namespace

PlanSource::PlanSource(const plan::Plan& plan) : plan_(plan) {
  for (std::int64_t r = 0; r < plan.scenario->layout.world; ++r)
    if (plan.representative_of(r) == r) standing_.push_back(r);
  states_.resize(standing_.size());
  for (std::size_t r = 0; r < states_.size(); ++r) states_[r].time.rank = standing_[r];
}

std::int64_t PlanSource::ranks() const { return static_cast<std::int64_t>(standing_.size()); }

std::int64_t PlanSource::standing_of(std::int64_t rank) const {
  const std::int64_t stage_size = plan_.scenario->layout.stage_size();
  return plan_.stage_of(rank) * plan_.fold + rank % stage_size % plan_.fold;
}

const PlanSource::Group& PlanSource::group_of(topology::GroupKind kind, std::int64_t rank) {
  const auto& layout = plan_.scenario->layout;
  const auto [entry, is_new] = groups_.try_emplace({static_cast<int>(kind), topology::group_index(layout, kind, rank)});
  Group& group = entry->second;
  if (!is_new) return group;
  group.ranks = topology::group_members(layout, kind, rank);
  for (std::size_t i = 0; i < group.ranks.size(); ++i)
    if (plan_.representative_of(group.ranks[i]) == group.ranks[i]) group.places.push_back(i);
  group.standing = static_cast<std::int32_t>(group.places.size());
  return group;
}

double PlanSource::clock_s(std::int64_t standing) const {
  return static_cast<double>(states_[static_cast<std::size_t>(standing)].clock_ps) * kPicosecond;
}

const plan::Op* PlanSource::find(std::int64_t rank, Cursor& cursor, const plan::Visit** visit) const {
  const plan::Program& program = plan_.program_of(rank);
  while (cursor.visit < program.visits.size()) {
    const plan::Visit& v = program.visits[cursor.visit];
    const plan::Block& block = plan_.blocks[static_cast<std::size_t>(v.block)];
    const auto& ops = plan::ops_of(block, v.direction);
    const std::size_t end = std::min<std::size_t>(v.end_op, ops.size());
    cursor.op = std::max<std::size_t>(cursor.op, v.first_op);
    while (cursor.op < end) {
      const plan::Op& op = ops[cursor.op++];
      // Hand-overs between blocks are for the memory replay alone.
      if (op.work == Work::fixed && op.launches == 0) continue;
      *visit = &v;
      return &op;
    }
    ++cursor.visit;
    cursor.op = 0;
  }
  return nullptr;
}

bool PlanSource::next(std::int64_t standing, TimedOp& out) {
  State& state = states_[static_cast<std::size_t>(standing)];
  const std::int64_t rank = rank_of(standing);
  const plan::Visit* visit = nullptr;
  const plan::Op* op = find(rank, state.next, &visit);
  if (op == nullptr) return false;
  const auto& host = plan_.scenario->hardware.host;
  const double host_scale = plan_.scenario->hardware.time_scale.host;
  out = TimedOp{};
  const bool behind = op->stream == Stream::ep && visit->lane == plan::Lane::backward;
  out.stream = static_cast<std::uint8_t>(behind ? Stream::ep_behind : op->stream);
  out.wait_streams = static_cast<std::uint16_t>(chain_of(*op, visit->lane) | shared_links(*op) | op->joins);
  // Posted ahead: it needs nothing of this rank, and only the op that joins it waits for it.
  if (plan_.scenario->training.overlap_p2p_comm)
    out.wait_streams = op->work == Work::receive
                           ? std::uint16_t{0}
                           : static_cast<std::uint16_t>((out.wait_streams & ~kReceives) | op->joins);
  out.issue_ps =
      op->captured
          ? 0
          : to_ps(plan_, op->name,
                  host_scale * (op->calls > 0 ? host.operation.value * op->calls : host.launch.value * op->launches));
  out.host_sync = op->host_sync;
  out.sync_ps = to_ps(plan_, op->name, host_scale * host.sync.value);
  share_multiprocessors(*op, out);
  switch (op->work) {
    case Work::fixed:
    case Work::grouped_gemm:
    case Work::row_memory:
    case Work::host_copy:
      out.duration_ps = to_ps(plan_, op->name, duration_s(*op, *visit, rank));
      break;
    case Work::collective:
    case Work::all_to_all:
    case Work::send:
    case Work::receive:
      meet(*op, *visit, standing, out);
      break;
  }
  return true;
}

void PlanSource::share_multiprocessors(const plan::Op& op, TimedOp& out) const {
  const auto& profile = plan_.scenario->hardware;
  // Of parts with more than can be counted, as many of those as the same share of theirs.
  const double all = std::max(1.0, std::floor(profile.device.sm_count.value));
  const double counted = std::min<double>(all, kMostMultiprocessors);
  if (op.product && op.stream == Stream::compute) {
    out.out_of = static_cast<std::int16_t>(counted);
    return;
  }
  if (op.work != Work::collective && op.work != Work::all_to_all) return;
  double held = profile.network.collective_sms ? profile.network.collective_sms->value : 0;
  if (op.sms >= 0) {
    held = op.sms;
  } else if (op.once_per_rank && cost::has_dispatch_kernels(profile)) {
    held = plan_.scenario->dispatch.sms > 0 ? static_cast<double>(plan_.scenario->dispatch.sms)
                                            : profile.dispatch.sms->value;
  }
  out.holds = static_cast<std::int16_t>(std::llround(std::min(held, all) * counted / all));
}

double PlanSource::duration_s(const plan::Op& op, const plan::Visit& visit, std::int64_t rank) {
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
  const auto& decision = plan_.decision(visit.moe_layer, visit.microbatch, plan_.group_of(rank));
  const auto& chunks = op.size.rows.backward ? decision.rows_of_backward() : decision.forward_rows;
  const auto rows = chunks[static_cast<std::size_t>(op.size.rows.chunk)].rows_on(plan_.member_of(rank));
  return cost::grouped_gemm_time_s(rows, op.n, op.k, op.pass, profile, op.precision);
}

void PlanSource::meet(const plan::Op& op, const plan::Visit& visit, std::int64_t standing, TimedOp& out) {
  State& state = states_[static_cast<std::size_t>(standing)];
  const std::int64_t rank = rank_of(standing);
  const auto& layout = plan_.scenario->layout;
  if (op.work == Work::send || op.work == Work::receive) {
    const Flow flow = flow_of(op);
    const bool sends = op.work == Work::send, earlier = sends == flow.towards_next();  // on the earlier stage
    const auto channel = static_cast<std::size_t>(2 * flow.number() + (sends ? 1 : 0));
    // Virtual stages wrap round: the first stage receives from the last.
    const std::int64_t before =
        rank >= layout.stage_size() ? rank - layout.stage_size() : rank + (layout.pp - 1) * layout.stage_size();
    const std::int64_t border = earlier ? rank : before;
    out.rendezvous = make_key(kFirstFlow + flow.number(), border, state.transfers[channel]++);
    out.members = 2;
  } else {
    if (topology::group_size(layout, op.group) == 1) return;  // nothing to exchange
    const Group& group = group_of(op.group, rank);
    if (group.standing == 1) {  // all arrive as this one does
      group_durations(op, visit, rank, group.ranks);
      out.duration_ps = to_ps(plan_, op.name, finish_[group.places.front()]);
      return;
    }
    const std::int32_t members = group.standing;
    const auto kind = static_cast<std::size_t>(op.group);
    out.rendezvous = make_key(static_cast<std::int64_t>(kind), topology::group_index(layout, op.group, rank),
                              state.sequence[kind]++);
    out.members = members;
  }
  meetings_.try_emplace(out.rendezvous, Meeting{&op, &visit, rank});
}

double PlanSource::collective_s(const plan::Op& op, std::int64_t bytes, std::span<const std::int64_t> ranks) {
  const auto key = std::make_tuple(static_cast<int>(op.collective) * 1'000'000 + static_cast<int>(ranks.size()), bytes,
                                   ranks.front(), ranks.size() > 1 ? ranks.back() : 0);
  const auto found = collective_memo_.find(key);
  if (found != collective_memo_.end()) return found->second;
  const double seconds = cost::collective_time_s(op.collective, static_cast<double>(bytes), ranks, plan_.cluster,
                                                 plan_.scenario->hardware);
  collective_memo_.emplace(key, seconds);
  return seconds;
}

void PlanSource::rendezvous_durations(std::int64_t key, std::span<const std::int64_t> ranks,
                                      std::span<std::int64_t> duration_ps) {
  const auto found = meetings_.find(key);
  MOEPLAN_CHECK(found != meetings_.end(), "a rendezvous was announced before it is priced");
  const Meeting meeting = found->second;
  meetings_.erase(found);
  const plan::Op& op = *meeting.op;
  if (op.work == Work::send || op.work == Work::receive) {
    const bool towards_next = flow_of(op).towards_next();
    const double seconds =
        cost::send_time_s(static_cast<double>(op.size.bytes), rank_of(towards_next ? ranks[0] : ranks[1]),
                          rank_of(towards_next ? ranks[1] : ranks[0]), plan_.cluster, plan_.scenario->hardware);
    for (auto& d : duration_ps) d = to_ps(plan_, op.name, seconds);
    return;
  }
  const Group& group = group_of(op.group, meeting.rank);
  group_durations(op, *meeting.visit, meeting.rank, group.ranks);
  for (std::size_t i = 0; i < ranks.size(); ++i) duration_ps[i] = to_ps(plan_, op.name, finish_[group.places[i]]);
}

void PlanSource::group_durations(const plan::Op& op, const plan::Visit& visit, std::int64_t rank,
                                 std::span<const std::int64_t> ranks) {
  if (op.work == Work::collective) {
    const auto taking_part = op.members > 0 && op.members < static_cast<std::int64_t>(ranks.size())
                                 ? ranks.first(static_cast<std::size_t>(op.members))
                                 : ranks;
    finish_.assign(ranks.size(), op.repeats * collective_s(op, plan_.bytes(op.size, visit, rank), taking_part));
  } else if (op.once_per_rank) {
    dispatch_durations(op, visit, rank, ranks);
  } else {
    all_to_all_durations(op, visit, rank, ranks);
  }
}

void PlanSource::all_to_all_durations(const plan::Op& op, const plan::Visit& visit, std::int64_t rank,
                                      std::span<const std::int64_t> ranks) {
  const std::size_t p = ranks.size();
  exchange_matrix(plan_, op, visit, rank, p, matrix_);
  finish_.assign(p, 0.0);
  cost::all_to_all_finish(matrix_, ranks, plan_.cluster, plan_.scenario->hardware, finish_);
}

void PlanSource::dispatch_durations(const plan::Op& op, const plan::Visit& visit, std::int64_t rank,
                                    std::span<const std::int64_t> ranks) {
  const auto& scenario = *plan_.scenario;
  const std::size_t p = ranks.size();
  exchange_matrix(plan_, op, visit, rank, p, matrix_);
  finish_.assign(p, 0.0);
  if (!cost::has_dispatch_kernels(scenario.hardware)) {
    cost::all_to_all_finish(matrix_, ranks, plan_.cluster, scenario.hardware, finish_);
    return;
  }
  const cost::DispatchKernel kernel{
      static_cast<double>(op.size.bytes_per_row), static_cast<double>(scenario.model.moe.experts),
      static_cast<double>(scenario.model.moe.top_k), scenario.dispatch.sms, op.towards_source};
  cost::dispatch_finish(kernel, matrix_, ranks, plan_.cluster, scenario.hardware, finish_);
}

void PlanSource::done(std::int64_t standing, const OpTimes& times) {
  State& state = states_[static_cast<std::size_t>(standing)];
  const plan::Visit* visit = nullptr;
  const plan::Op* op = find(rank_of(standing), state.done, &visit);
  MOEPLAN_CHECK(op != nullptr, "the engine finished an op that the program does not have");
  if (times.end_ps > kLongestStep_ps) too_long(plan_, "the step", static_cast<double>(times.end_ps) * kPicosecond);
  attribute(state, *op, visit->lane, times);
  if (standing == recorded_) times_->push_back(times);
}

std::int64_t PlanSource::all_exchanges_ps(const State& state) {
  std::int64_t sum = 0;
  for (const std::int64_t run : state.exchange_run_ps) sum += run;
  return sum;
}

void PlanSource::attribute(State& state, const plan::Op& op, plan::Lane lane, const OpTimes& times) {
  if (op.asynchronous) {  // beside the chain: nobody waits for it here
    if (op.work == Work::receive) state.received_run_ps += times.end_ps - times.start_ps;
    if (op.stream == Stream::tp) state.scattered_run_ps += times.end_ps - times.start_ps;
    if (op.stream == Stream::tp_beside) state.gathered_run_ps += times.end_ps - times.start_ps;
    return;
  }
  if ((lane != plan::Lane::alone || op.covered) && op.stream == Stream::ep) {
    // Under other compute, of another microbatch or chunk: what shows is what the next op of the lane waits for.
    state.exchange_run_ps[static_cast<std::size_t>(lane)] += times.end_ps - times.start_ps;
    return;
  }
  TimeParts& parts = state.time.parts;
  auto seconds = [](std::int64_t from, std::int64_t to) {
    return to > from ? static_cast<double>(to - from) * kPicosecond : 0.0;
  };
  // Before it could start: the host, or results from beside the chain.
  const std::int64_t issued = std::min(times.issued_ps, times.ready_ps);
  parts.host_s += seconds(state.clock_ps, issued);
  const std::int64_t from = std::max(state.clock_ps, issued);
  std::int64_t& exchanged_ps = state.exchange_run_ps[static_cast<std::size_t>(lane)];
  if ((op.joins & kTensorParallel) != 0) {  // beside products: the exchange's run last, its wait for its members first
    std::int64_t& ran_ps = (op.joins & stream_bit(Stream::tp)) != 0 ? state.scattered_run_ps : state.gathered_run_ps;
    const std::int64_t run = std::clamp<std::int64_t>(times.ready_ps - from, 0, ran_ps);
    parts.exposed_tp_s += static_cast<double>(run) * kPicosecond;
    parts.imbalance_wait_s += seconds(from, times.ready_ps - run);
    ran_ps = 0;
  } else if ((op.joins & stream_bit(Stream::from_host)) != 0) {
    parts.exposed_offload_s += seconds(from, times.ready_ps);
  } else if ((op.joins & kReceives) != 0) {  // the transfer's run last, its wait for the neighbour first
    const std::int64_t run = std::clamp<std::int64_t>(times.ready_ps - from, 0, state.received_run_ps);
    parts.exposed_pp_s += static_cast<double>(run) * kPicosecond;
    parts.bubble_s += seconds(from, times.ready_ps - run);
    state.received_run_ps = 0;
  } else if (op.joins != 0) {
    parts.exposed_dp_s += seconds(from, times.ready_ps);
  } else if (times.ready_ps > from) {  // an exchange that another microbatch did not hide: its run last, its wait first
    const std::int64_t run =
        std::min(times.ready_ps - from, lane == plan::Lane::alone ? all_exchanges_ps(state) : exchanged_ps);
    parts.exposed_ep_s += static_cast<double>(run) * kPicosecond;
    parts.imbalance_wait_s += seconds(from, times.ready_ps - run);
  }
  if (lane != plan::Lane::alone || !op.beside_exchange) exchanged_ps = 0;
  // Only what lies behind the clock: of two microbatches that take turns one may have moved it on.
  const std::int64_t started = std::max(times.start_ps, state.clock_ps);
  const double wait = seconds(std::max(times.ready_ps, state.clock_ps), started), run = seconds(started, times.end_ps);
  const bool communicates =
      op.work == Work::collective || op.work == Work::all_to_all || op.work == Work::send || op.work == Work::receive;
  if (!communicates) {
    (op.recompute ? parts.recompute_s : parts.family_s[static_cast<std::size_t>(op.family)]) += run;
    state.time.busy_s += run;
  } else if (op.work == Work::receive) {
    parts.bubble_s += wait;
    parts.exposed_pp_s += run;
  } else {
    (op.group == topology::GroupKind::world ? parts.bubble_s : parts.imbalance_wait_s) += wait;
    double& exposed = op.stream == Stream::ep   ? parts.exposed_ep_s
                      : op.stream == Stream::tp ? parts.exposed_tp_s
                                                : parts.exposed_dp_s;
    exposed += run;
  }
  state.clock_ps = std::max(state.clock_ps, times.end_ps);
}

}  // namespace moeplan::engine
