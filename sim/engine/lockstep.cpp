#include "engine/lockstep.h"

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <memory>
#include <tuple>
#include <utility>

#include "engine/flow.h"
#include "engine/piece_table.h"
#include "engine/step_template.h"

namespace moeplan::engine {

namespace {

using Times = std::vector<std::int64_t>;  // [member of a row], picoseconds

// How the members of a row fall into the groups of one kind.
struct Partition {
  struct Part {
    const OpCosts::Group* group = nullptr;
    std::int64_t rank = 0;             // of the group, in this row
    std::vector<std::size_t> members;  // positions in the row, ascending by rank
    std::vector<std::size_t> places;   // of theirs in group->ranks
  };
  std::vector<Part> parts;
  bool inside = true;         // every group lies in this row whole
  std::int64_t meetings = 0;  // of groups that do not, so far
};

// Transfers over one border in one direction, in order. The sender goes on at once; the receiver waits, now or where it
// joins what it posted.
struct Channel {
  std::deque<Times> sent, received;   // when each could start for all that this side knows, but for those before it
  Times end_ps;                       // of the last transfer that both sides have come to
  std::int64_t posted = 0, done = 0;  // receives so far, and transfers
  std::int64_t waiting_row = -1;
  Times duration_ps;  // by member, of transfers of `bytes`
  std::int64_t bytes = -1;
};

// Ranks first .. first + members - 1 of one program.
struct Row {
  std::int64_t first = 0;
  std::size_t members = 0, program = 0;
  std::size_t visit = 0, piece = 0;  // next
  Times host_ps, chain_ps, ready_ps;
  // Sums, as in PartsPs.
  Times received_run_ps;  // of receives posted ahead, since an op last waited for one
  Times host_wait_ps, imbalance_ps, bubble_ps, exposed_ep_ps, exposed_tp_ps, exposed_dp_ps, exposed_pp_ps;
  std::map<topology::GroupKind, Partition> partitions;
  std::unique_ptr<PieceTables> tables;
  std::int64_t open_meetings = 0;  // of groups with members elsewhere that this row waits for
  bool issued = false;             // the piece that the row waits in has been issued
  Times start_ps, end_ps;          // of the meeting
};

// A meeting of members of several rows.
struct Meeting {
  struct Member {
    std::int64_t standing = 0;
    std::int64_t ready_ps = 0;
    std::size_t row = 0, position = 0, place = 0;
  };
  std::vector<Member> arrived;
};

class Lockstep {
 public:
  Lockstep(const plan::Plan& plan, OpCosts& costs, const Templates& templates)
      : plan_(plan), costs_(costs), templates_(templates) {
    const auto& layout = plan.scenario->layout;
    const bool folded = plan.fold < layout.stage_size();
    members_ = static_cast<std::size_t>(folded ? plan.fold : layout.ep * layout.etp);
    rows_of_stage_ = folded ? 1 : plan.groups_per_stage();
    rows_.resize(plan.programs.size());
    channels_.resize(static_cast<std::size_t>(kFlows) * rows_.size());
    for (std::size_t r = 0; r < rows_.size(); ++r) make_row(r, folded);
  }

  std::optional<StandingTimes> run() {
    std::vector<std::size_t> ready;
    for (std::size_t r = rows_.size(); r-- > 0;) ready.push_back(r);
    ready_.swap(ready);
    while (!ready_.empty()) {
      const std::size_t r = ready_.back();
      ready_.pop_back();
      go_on(r);
    }
    for (const Row& row : rows_)
      if (row.visit < templates_.of_program(row.program).size()) return std::nullopt;
    return result();
  }

 private:
  void make_row(std::size_t r, bool folded) {
    Row& row = rows_[r];
    row.program = r;
    row.members = members_;
    const std::int64_t stage_size = plan_.scenario->layout.stage_size();
    row.first = folded ? static_cast<std::int64_t>(r) * stage_size
                       : static_cast<std::int64_t>(r) * static_cast<std::int64_t>(members_);
    for (Times* times : {&row.host_ps, &row.chain_ps, &row.ready_ps, &row.received_run_ps, &row.host_wait_ps,
                         &row.imbalance_ps, &row.bubble_ps, &row.exposed_ep_ps, &row.exposed_tp_ps, &row.exposed_dp_ps,
                         &row.exposed_pp_ps, &row.start_ps, &row.end_ps})
      times->assign(members_, 0);
    row.tables = std::make_unique<PieceTables>(plan_, costs_, row.first, members_);
  }

  std::int64_t rank(const Row& row, std::size_t position) const {
    return row.first + static_cast<std::int64_t>(position);
  }

  // Goes through the row's program until it must wait for another.
  void go_on(std::size_t r) {
    Row& row = rows_[r];
    const std::vector<std::int32_t>& numbers = templates_.of_program(row.program);
    const std::vector<plan::Visit>& visits = plan_.programs[row.program].visits;
    for (; row.visit < numbers.size(); ++row.visit, row.piece = 0) {
      const Template& made = templates_.at(numbers[row.visit]);
      const plan::Visit& visit = visits[row.visit];
      for (; row.piece < made.pieces.size(); ++row.piece) {
        const Piece& piece = made.pieces[row.piece];
        switch (piece.kind) {
          case Piece::Kind::local:
            local(row, piece, visit);
            break;
          case Piece::Kind::send:
            send(r, piece);
            break;
          case Piece::Kind::receive:
            if (!receive(r, piece)) return;
            break;
          case Piece::Kind::post:
            post(r, piece);
            break;
          case Piece::Kind::join:
            if (!join(r, piece, visit)) return;
            break;
          case Piece::Kind::meet:
            if (!meet(r, piece, visit)) return;
            break;
        }
        row.issued = false;
      }
      ops_ += made.ops * static_cast<std::int64_t>(row.members);
    }
  }

  void check_length(std::int64_t longest_ps) const {
    if (longest_ps > kLongestStep_ps) too_long(plan_, "the step", static_cast<double>(longest_ps) * kPicosecond);
  }

  void local(Row& row, const Piece& piece, const plan::Visit& visit) {
    PieceTable& table = row.tables->of(piece, visit);
    ++table.uses;
    check_length(table.longest_ps);
    const bool same = table.work_ps.size() == 1;
    const std::int64_t sync_ps = costs_.sync_ps();
    std::int64_t longest_ps = 0;
    for (std::size_t i = 0; i < row.members; ++i) {
      const std::int64_t work_ps = table.work_ps[same ? 0 : i], host_work_ps = table.host_work_ps[same ? 0 : i];
      const std::int64_t start_ps = row.chain_ps[i];
      const std::int64_t end_ps = std::max(start_ps + work_ps, row.host_ps[i] + host_work_ps);
      row.host_wait_ps[i] += end_ps - start_ps - work_ps;
      row.chain_ps[i] = end_ps;
      row.host_ps[i] += piece.issue_ps;
      if (piece.host_sync) row.host_ps[i] = std::max(row.host_ps[i], end_ps + sync_ps);
      longest_ps = std::max(longest_ps, end_ps);
    }
    check_length(longest_ps);
  }

  // The host issues an op that meets others; it could start when that is done and the chain is free.
  void issue(Row& row, const Piece& piece) {
    if (row.issued) return;
    row.issued = true;
    for (std::size_t i = 0; i < row.members; ++i) {
      row.host_ps[i] += piece.issue_ps;
      row.ready_ps[i] = std::max(row.host_ps[i], row.chain_ps[i]);
      if (piece.kind != Piece::Kind::send) row.host_wait_ps[i] += row.ready_ps[i] - row.chain_ps[i];
    }
  }

  void end_of_meeting(Row& row, const Piece& piece) {
    std::int64_t longest_ps = 0;
    for (std::size_t i = 0; i < row.members; ++i) {
      row.chain_ps[i] = row.end_ps[i];
      longest_ps = std::max(longest_ps, row.end_ps[i]);
    }
    if (piece.host_sync)
      for (std::size_t i = 0; i < row.members; ++i)
        row.host_ps[i] = std::max(row.host_ps[i], row.end_ps[i] + costs_.sync_ps());
    check_length(longest_ps);
  }

  std::size_t channel_of(std::size_t r, Flow flow, bool sends) const {
    const bool earlier = sends == flow.towards_next();
    const auto rows = static_cast<std::int64_t>(rows_.size()), own = static_cast<std::int64_t>(r);
    // Virtual stages wrap round: the first stage receives from the last.
    const std::int64_t before = own >= rows_of_stage_ ? own - rows_of_stage_ : own + rows - rows_of_stage_;
    return static_cast<std::size_t>(flow.number() * rows + (earlier ? own : before));
  }

  void send(std::size_t r, const Piece& piece) {
    Row& row = rows_[r];
    issue(row, piece);
    const Flow flow = flow_of(*piece.op);
    const std::size_t number = channel_of(r, flow, true);
    Channel& channel = channels_[number];
    if (channel.bytes != piece.op->size.bytes) price(channel, number, *piece.op, flow);
    channel.sent.push_back(row.ready_ps);
    transfer(channel);
    if (channel.waiting_row < 0) return;
    ready_.push_back(static_cast<std::size_t>(channel.waiting_row));
    channel.waiting_row = -1;
  }

  // Transfers that both sides have come to.
  static void transfer(Channel& channel) {
    while (!channel.sent.empty() && !channel.received.empty()) {
      const Times &sent = channel.sent.front(), &received = channel.received.front();
      for (std::size_t i = 0; i < sent.size(); ++i)
        channel.end_ps[i] = std::max({sent[i], received[i], channel.end_ps[i]}) + channel.duration_ps[i];
      channel.sent.pop_front();
      channel.received.pop_front();
      ++channel.done;
    }
  }

  // The receiver's side of the next transfer.
  Channel& come_to(std::size_t r, const plan::Op& op, const Times& ready_ps) {
    const Flow flow = flow_of(op);
    const std::size_t number = channel_of(r, flow, false);
    Channel& channel = channels_[number];
    if (channel.bytes != op.size.bytes) price(channel, number, op, flow);
    channel.received.push_back(ready_ps);
    ++channel.posted;
    transfer(channel);
    return channel;
  }

  bool over(Channel& channel, std::size_t r) const {
    if (channel.done == channel.posted) return true;
    channel.waiting_row = static_cast<std::int64_t>(r);
    return false;
  }

  bool receive(std::size_t r, const Piece& piece) {
    Row& row = rows_[r];
    const bool first_time = !row.issued;
    issue(row, piece);
    Channel& channel =
        first_time ? come_to(r, *piece.op, row.ready_ps) : channels_[channel_of(r, flow_of(*piece.op), false)];
    if (!over(channel, r)) return false;
    for (std::size_t i = 0; i < row.members; ++i) {
      row.bubble_ps[i] += channel.end_ps[i] - channel.duration_ps[i] - row.ready_ps[i];
      row.exposed_pp_ps[i] += channel.duration_ps[i];
    }
    row.end_ps = channel.end_ps;
    end_of_meeting(row, piece);
    return true;
  }

  // A receive that needs nothing of this rank but its host, and that the row goes on beside.
  void post(std::size_t r, const Piece& piece) {
    Row& row = rows_[r];
    for (std::size_t i = 0; i < row.members; ++i) row.host_ps[i] += piece.issue_ps;
    const Channel& channel = come_to(r, *piece.op, row.host_ps);
    for (std::size_t i = 0; i < row.members; ++i) row.received_run_ps[i] += channel.duration_ps[i];
  }

  // Waits for the receives posted on a stream: their run shows last, the wait for the neighbour first.
  bool join(std::size_t r, const Piece& piece, const plan::Visit& visit) {
    Row& row = rows_[r];
    const bool activations = piece.op->joins == plan::stream_bit(plan::Stream::receive_previous);
    Channel& channel = channels_[channel_of(r, {activations, false}, false)];
    if (!over(channel, r)) return false;
    PieceTable& table = row.tables->of(piece, visit);
    ++table.uses;
    std::int64_t longest_ps = 0;
    for (std::size_t i = 0; i < row.members; ++i) {
      row.host_ps[i] += piece.issue_ps;
      const std::int64_t from_ps = std::max(row.chain_ps[i], row.host_ps[i]);
      const std::int64_t ready_ps = channel.posted > 0 ? std::max(from_ps, channel.end_ps[i]) : from_ps;
      const std::int64_t run_ps = std::min(ready_ps - from_ps, row.received_run_ps[i]);
      row.host_wait_ps[i] += from_ps - row.chain_ps[i];
      row.exposed_pp_ps[i] += run_ps;
      row.bubble_ps[i] += ready_ps - from_ps - run_ps;
      row.received_run_ps[i] = 0;
      row.chain_ps[i] = ready_ps + table.work_ps[0];
      longest_ps = std::max(longest_ps, row.chain_ps[i]);
    }
    check_length(longest_ps);
    return true;
  }

  void price(Channel& channel, std::size_t number, const plan::Op& op, Flow flow) {
    const std::size_t border = number % rows_.size();  // named after its row on the earlier stage
    channel.bytes = op.size.bytes;
    channel.duration_ps.resize(members_);
    channel.end_ps.resize(members_, 0);
    for (std::size_t i = 0; i < members_; ++i) {
      const std::int64_t a = rank(rows_[border], i), b = rank(rows_[other_end(border)], i);
      const std::int64_t lower = std::min(a, b), upper = std::max(a, b);
      channel.duration_ps[i] =
          costs_.send_ps(op, flow.towards_next() ? lower : upper, flow.towards_next() ? upper : lower);
    }
  }

  std::size_t other_end(std::size_t border) const {
    return (border + static_cast<std::size_t>(rows_of_stage_)) % rows_.size();
  }

  Partition& partition_of(Row& row, topology::GroupKind kind) {
    const auto [entry, is_new] = row.partitions.try_emplace(kind);
    Partition& partition = entry->second;
    if (!is_new) return partition;
    std::map<std::int64_t, std::size_t> part_of_group;
    for (std::size_t i = 0; i < row.members; ++i) {
      const OpCosts::Group& group = costs_.group_of(kind, rank(row, i));
      const auto [place, first] = part_of_group.try_emplace(group.index, partition.parts.size());
      if (first) partition.parts.push_back({&group, rank(row, i), {}, {}});
      Partition::Part& part = partition.parts[place->second];
      part.members.push_back(i);
      const auto at = std::lower_bound(group.ranks.begin(), group.ranks.end(), rank(row, i));  // ascending
      part.places.push_back(static_cast<std::size_t>(at - group.ranks.begin()));
    }
    for (const Partition::Part& part : partition.parts)
      partition.inside = partition.inside && part.members.size() == static_cast<std::size_t>(part.group->standing);
    return partition;
  }

  bool meet(std::size_t r, const Piece& piece, const plan::Visit& visit) {
    Row& row = rows_[r];
    Partition& partition = partition_of(row, piece.op->group);
    if (partition.inside) {
      issue(row, piece);
      for (const Partition::Part& part : partition.parts) {
        const auto durations_ps = costs_.group_ps(*piece.op, visit, part.rank, *part.group);
        std::int64_t start_ps = 0;
        for (const std::size_t i : part.members) start_ps = std::max(start_ps, row.ready_ps[i]);
        for (std::size_t m = 0; m < part.members.size(); ++m) {
          row.start_ps[part.members[m]] = start_ps;
          row.end_ps[part.members[m]] = start_ps + durations_ps[part.places[m]];
        }
      }
    } else {
      if (!row.issued) {
        issue(row, piece);
        arrive(r, piece, visit, partition);
      }
      if (row.open_meetings > 0) return false;
    }
    Times& waits = piece.op->group == topology::GroupKind::world ? row.bubble_ps : row.imbalance_ps;
    Times& exposed = piece.op->stream == plan::Stream::ep   ? row.exposed_ep_ps
                     : piece.op->stream == plan::Stream::tp ? row.exposed_tp_ps
                                                            : row.exposed_dp_ps;
    for (std::size_t i = 0; i < row.members; ++i) {
      waits[i] += row.start_ps[i] - row.ready_ps[i];
      exposed[i] += row.end_ps[i] - row.start_ps[i];
    }
    end_of_meeting(row, piece);
    return true;
  }

  // Adds the row's members to meetings with other rows; those that are complete end, and may wake rows.
  void arrive(std::size_t r, const Piece& piece, const plan::Visit& visit, Partition& partition) {
    Row& row = rows_[r];
    const std::int64_t sequence = partition.meetings++;
    row.open_meetings = static_cast<std::int64_t>(partition.parts.size());
    for (const Partition::Part& part : partition.parts) {
      const auto key = std::make_tuple(static_cast<int>(piece.op->group), part.group->index, sequence);
      Meeting& meeting = meetings_[key];
      for (std::size_t m = 0; m < part.members.size(); ++m)
        meeting.arrived.push_back(
            {rank(row, part.members[m]), row.ready_ps[part.members[m]], r, part.members[m], part.places[m]});
      if (meeting.arrived.size() < static_cast<std::size_t>(part.group->standing)) continue;
      const auto durations_ps = costs_.group_ps(*piece.op, visit, part.rank, *part.group);
      std::int64_t start_ps = 0;
      for (const Meeting::Member& member : meeting.arrived) start_ps = std::max(start_ps, member.ready_ps);
      const Meeting::Member* before = nullptr;
      for (const Meeting::Member& member : meeting.arrived) {
        Row& other = rows_[member.row];
        other.start_ps[member.position] = start_ps;
        other.end_ps[member.position] = start_ps + durations_ps[member.place];
        const bool same_row = before != nullptr && before->row == member.row;  // a row arrives with all of its members
        before = &member;
        if (!same_row && --other.open_meetings == 0 && member.row != r) ready_.push_back(member.row);
      }
      meetings_.erase(key);
    }
  }

  StandingTimes result() {
    StandingTimes times;
    times.ops = ops_;
    for (std::size_t r = 0; r < rows_.size(); ++r) {
      Row& row = rows_[r];
      std::vector<PartsPs> parts(row.members);
      row.tables->settle(parts);
      for (std::size_t i = 0; i < row.members; ++i) {
        parts[i].host = row.host_wait_ps[i];
        parts[i].imbalance_wait = row.imbalance_ps[i];
        parts[i].bubble = row.bubble_ps[i];
        parts[i].exposed_ep = row.exposed_ep_ps[i];
        parts[i].exposed_tp = row.exposed_tp_ps[i];
        parts[i].exposed_dp = row.exposed_dp_ps[i];
        parts[i].exposed_pp = row.exposed_pp_ps[i];
        times.finish_ps.push_back(std::max({row.host_ps[i], row.chain_ps[i], last_send_ps(r, i)}));
        times.clock_ps.push_back(row.chain_ps[i]);
        times.makespan_ps = std::max(times.makespan_ps, times.finish_ps.back());
      }
      times.parts.insert(times.parts.end(), parts.begin(), parts.end());
    }
    return times;
  }

  // Of the channels that the row sends on, one a flow.
  std::int64_t last_send_ps(std::size_t r, std::size_t member) const {
    const std::size_t rows = rows_.size();
    const std::size_t before = (r + rows - static_cast<std::size_t>(rows_of_stage_) % rows) % rows;
    std::int64_t last_ps = 0;
    for (std::size_t flow = 0; flow < channels_.size() / rows; ++flow) {
      const bool towards_next = flow == 0 || flow == 3;  // Flow::number
      const Channel& channel = channels_[flow * rows + (towards_next ? r : before)];
      if (!channel.end_ps.empty()) last_ps = std::max(last_ps, channel.end_ps[member]);
    }
    return last_ps;
  }

  const plan::Plan& plan_;
  OpCosts& costs_;
  const Templates& templates_;
  std::size_t members_ = 0;
  std::int64_t rows_of_stage_ = 0;
  std::vector<Row> rows_;
  std::vector<Channel> channels_;  // [flow * rows + row on the earlier stage]
  std::map<std::tuple<int, std::int64_t, std::int64_t>, Meeting> meetings_;
  std::vector<std::size_t> ready_;
  std::int64_t ops_ = 0;
};

}  // namespace

std::optional<StandingTimes> run_lockstep(const plan::Plan& plan, const ExchangeFactors* factors) {
  OpCosts costs(plan, factors);
  const std::optional<Templates> templates = Templates::of_chain(plan, costs);
  if (!templates) return std::nullopt;
  return Lockstep(plan, costs, *templates).run();
}

}  // namespace moeplan::engine
