#include "engine/plan_source.h"

#include <algorithm>
#include <cmath>

#include "base/check.h"
#include "cost/dispatch.h"
#include "engine/flow.h"

namespace moeplan::engine {

namespace {

using plan::Stream;
using plan::stream_bit;
using plan::Work;
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

}  // namespace

PlanSource::PlanSource(const plan::Plan& plan, const ExchangeFactors* factors)
    : plan_(plan), costs_(plan, factors), facts_(3 * plan.blocks.size()) {
  for (std::int64_t r = 0; r < plan.scenario->layout.world; ++r)
    if (plan.representative_of(r) == r) standing_.push_back(r);
  states_.resize(standing_.size());
}

std::int64_t PlanSource::ranks() const { return static_cast<std::int64_t>(standing_.size()); }

std::int64_t PlanSource::standing_of(std::int64_t rank) const {
  const std::int64_t stage_size = plan_.scenario->layout.stage_size();
  return plan_.stage_of(rank) * plan_.fold + rank % stage_size % plan_.fold;
}

// What an op asks of the engine, whoever runs it, worked out at the first visit of its block.
struct PlanSource::Facts {
  TimedOp timed;                         // stream, waits and rendezvous as without a lane; fixed duration
  std::array<std::uint16_t, 3> waits{};  // by lane
  const plan::Op* op = nullptr;
};

PlanSource::~PlanSource() = default;

const std::vector<PlanSource::Facts>& PlanSource::facts_of(std::int32_t block, schedule::Direction direction) {
  std::vector<Facts>& facts = facts_[3 * static_cast<std::size_t>(block) + static_cast<std::size_t>(direction)];
  const auto& ops = plan::ops_of(plan_.blocks[static_cast<std::size_t>(block)], direction);
  if (facts.size() == ops.size()) return facts;
  for (const plan::Op& op : ops) {
    Facts& f = facts.emplace_back();
    // Hand-overs between blocks are for the memory replay alone.
    if (op.work == Work::fixed && op.launches == 0) continue;
    f.op = &op;
    f.timed.stream = static_cast<std::uint8_t>(op.stream);
    f.timed.issue_ps = costs_.issue_ps(op);
    f.timed.host_sync = op.host_sync;
    f.timed.sync_ps = costs_.sync_ps();
    share_multiprocessors(op, f.timed);
    if (op.work == Work::fixed) f.timed.duration_ps = to_ps(plan_, op.name, op.seconds);
    for (const plan::Lane lane : {plan::Lane::alone, plan::Lane::forward, plan::Lane::backward}) {
      auto waits = static_cast<std::uint16_t>(chain_of(op, lane) | shared_links(op) | op.joins);
      // Posted ahead: it needs nothing of this rank, and only the op that joins it waits for it.
      if (plan_.scenario->training.overlap_p2p_comm)
        waits =
            op.work == Work::receive ? std::uint16_t{0} : static_cast<std::uint16_t>((waits & ~kReceives) | op.joins);
      f.waits[static_cast<std::size_t>(lane)] = waits;
    }
  }
  return facts;
}

const PlanSource::Facts* PlanSource::find(std::int64_t rank, Cursor& cursor, const plan::Visit** visit) {
  const plan::Program& program = plan_.program_of(rank);
  while (cursor.visit < program.visits.size()) {
    const plan::Visit& v = program.visits[cursor.visit];
    const std::vector<Facts>& ops = facts_of(v.block, v.direction);
    const std::size_t end = std::min<std::size_t>(v.end_op, ops.size());
    cursor.op = std::max<std::size_t>(cursor.op, v.first_op);
    while (cursor.op < end) {
      const Facts& facts = ops[cursor.op++];
      if (facts.op == nullptr) continue;
      *visit = &v;
      return &facts;
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
  const Facts* facts = find(rank, state.next, &visit);
  if (facts == nullptr) return false;
  const plan::Op& op = *facts->op;
  out = facts->timed;
  out.wait_streams = facts->waits[static_cast<std::size_t>(visit->lane)];
  if (op.stream == Stream::ep && visit->lane == plan::Lane::backward)
    out.stream = static_cast<std::uint8_t>(Stream::ep_behind);
  switch (op.work) {
    case Work::fixed:
      break;
    case Work::grouped_gemm:
    case Work::row_memory:
    case Work::host_copy:
      out.duration_ps = costs_.local_ps(op, *visit, rank);
      break;
    case Work::collective:
    case Work::all_to_all:
    case Work::send:
    case Work::receive:
      meet(op, *visit, standing, out);
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
    const OpCosts::Group& group = costs_.group_of(op.group, rank);
    if (group.standing == 1) {  // all arrive as this one does
      out.duration_ps = costs_.group_ps(op, visit, rank, group)[group.places.front()];
      return;
    }
    const auto kind = static_cast<std::size_t>(op.group);
    out.rendezvous = make_key(static_cast<std::int64_t>(kind), group.index, state.sequence[kind]++);
    out.members = group.standing;
  }
  meetings_.try_emplace(out.rendezvous, Meeting{&op, &visit, rank});
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
    const std::int64_t lower = rank_of(ranks[0]), upper = rank_of(ranks[1]);
    const std::int64_t ps = costs_.send_ps(op, towards_next ? lower : upper, towards_next ? upper : lower);
    for (auto& d : duration_ps) d = ps;
    return;
  }
  const OpCosts::Group& group = costs_.group_of(op.group, meeting.rank);
  const auto all = costs_.group_ps(op, *meeting.visit, meeting.rank, group);
  for (std::size_t i = 0; i < ranks.size(); ++i) duration_ps[i] = all[group.places[i]];
}

void PlanSource::done(std::int64_t standing, const OpTimes& times) {
  State& state = states_[static_cast<std::size_t>(standing)];
  const plan::Visit* visit = nullptr;
  const Facts* facts = find(rank_of(standing), state.done, &visit);
  MOEPLAN_CHECK(facts != nullptr, "the engine finished an op that the program does not have");
  if (times.end_ps > kLongestStep_ps) too_long(plan_, "the step", static_cast<double>(times.end_ps) * kPicosecond);
  attribute(state, *facts->op, visit->lane, times);
  if (standing == recorded_) times_->push_back(times);
  if (watcher_) watcher_(standing, *facts->op, times);
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
  PartsPs& parts = state.parts;
  const auto span = [](std::int64_t from, std::int64_t to) { return std::max<std::int64_t>(to - from, 0); };
  // Before it could start: the host, or results from beside the chain.
  const std::int64_t issued = std::min(times.issued_ps, times.ready_ps);
  parts.host += span(state.clock_ps, issued);
  const std::int64_t from = std::max(state.clock_ps, issued);
  std::int64_t& exchanged_ps = state.exchange_run_ps[static_cast<std::size_t>(lane)];
  if ((op.joins & kTensorParallel) != 0) {  // beside products: the exchange's run last, its wait for its members first
    std::int64_t& ran_ps = (op.joins & stream_bit(Stream::tp)) != 0 ? state.scattered_run_ps : state.gathered_run_ps;
    const std::int64_t run = std::clamp<std::int64_t>(times.ready_ps - from, 0, ran_ps);
    parts.exposed_tp += run;
    parts.imbalance_wait += span(from, times.ready_ps - run);
    ran_ps = 0;
  } else if ((op.joins & stream_bit(Stream::from_host)) != 0) {
    parts.exposed_offload += span(from, times.ready_ps);
  } else if ((op.joins & kReceives) != 0) {  // the transfer's run last, its wait for the neighbour first
    const std::int64_t run = std::clamp<std::int64_t>(times.ready_ps - from, 0, state.received_run_ps);
    parts.exposed_pp += run;
    parts.bubble += span(from, times.ready_ps - run);
    state.received_run_ps = 0;
  } else if (op.joins != 0) {
    parts.exposed_dp += span(from, times.ready_ps);
  } else if (times.ready_ps > from) {  // an exchange that another microbatch did not hide: its run last, its wait first
    const std::int64_t run =
        std::min(times.ready_ps - from, lane == plan::Lane::alone ? all_exchanges_ps(state) : exchanged_ps);
    parts.exposed_ep += run;
    parts.imbalance_wait += span(from, times.ready_ps - run);
  }
  if (lane != plan::Lane::alone || !op.beside_exchange) exchanged_ps = 0;
  // Only what lies behind the clock: of two microbatches that take turns one may have moved it on.
  const std::int64_t started = std::max(times.start_ps, state.clock_ps);
  const std::int64_t wait = span(std::max(times.ready_ps, state.clock_ps), started), run = span(started, times.end_ps);
  const bool communicates =
      op.work == Work::collective || op.work == Work::all_to_all || op.work == Work::send || op.work == Work::receive;
  if (!communicates) {
    (op.recompute ? parts.recompute : parts.family[static_cast<std::size_t>(op.family)]) += run;
    parts.busy += run;
  } else if (op.work == Work::receive) {
    parts.bubble += wait;
    parts.exposed_pp += run;
  } else {
    (op.group == topology::GroupKind::world ? parts.bubble : parts.imbalance_wait) += wait;
    std::int64_t& exposed = op.stream == Stream::ep   ? parts.exposed_ep
                            : op.stream == Stream::tp ? parts.exposed_tp
                                                      : parts.exposed_dp;
    exposed += run;
  }
  state.clock_ps = std::max(state.clock_ps, times.end_ps);
}

}  // namespace moeplan::engine
