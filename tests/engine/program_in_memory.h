#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <span>
#include <utility>
#include <vector>

#include "engine/engine.h"

// Programs held in memory, and what an evaluation reports about them.
namespace moeplan::engine {

inline TimedOp work(int stream, std::int64_t duration_ps) {
  TimedOp op;
  op.stream = static_cast<std::uint8_t>(stream);
  op.duration_ps = duration_ps;
  return op;
}
inline TimedOp meet(int stream, std::int64_t key, std::int32_t members) {
  TimedOp op = work(stream, 0);
  op.rendezvous = key;
  op.members = members;
  return op;
}
inline TimedOp after(TimedOp op, int stream) {
  op.wait_streams = static_cast<std::uint16_t>(op.wait_streams | (1U << stream));
  return op;
}
inline TimedOp issued_in(TimedOp op, std::int64_t issue_ps) {
  op.issue_ps = issue_ps;
  return op;
}
inline TimedOp synced(TimedOp op, std::int64_t sync_ps) {
  op.host_sync = true;
  op.sync_ps = sync_ps;
  return op;
}

struct Program {
  std::vector<std::vector<TimedOp>> ranks;
  // (key, rank) -> duration of the rank's op
  std::map<std::pair<std::int64_t, std::int64_t>, std::int64_t> met_ps;
};

struct Outcome {
  std::vector<std::vector<OpTimes>> times;
  RunResult result;
  // (key, members in the order given), sorted: how often and with what the durations were asked for
  std::vector<std::pair<std::int64_t, std::vector<std::int64_t>>> asked;
};

// Shows rank `label[r]` of the program to the engine as rank r, which changes the order in which ranks are stepped.
class ProgramInMemory : public ProgramSource {
 public:
  explicit ProgramInMemory(const Program& program) : ProgramInMemory(program, identity(program.ranks.size())) {}
  ProgramInMemory(const Program& program, std::vector<std::size_t> label)
      : program_(program), label_(std::move(label)), next_(label_.size(), 0), times_(label_.size()) {}

  std::int64_t ranks() const override { return static_cast<std::int64_t>(label_.size()); }
  bool next(std::int64_t rank, TimedOp& op) override {
    const std::size_t r = own(rank);
    if (next_[r] == program_.ranks[r].size()) return false;
    op = program_.ranks[r][next_[r]++];
    most_unreported_ = std::max(most_unreported_, next_[r] - times_[r].size());
    return true;
  }
  void rendezvous_durations(std::int64_t key, std::span<const std::int64_t> ranks,
                            std::span<std::int64_t> duration_ps) override {
    std::vector<std::int64_t> members;
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      ascending_ = ascending_ && (i == 0 || ranks[i - 1] < ranks[i]);
      members.push_back(static_cast<std::int64_t>(own(ranks[i])));
      duration_ps[i] = program_.met_ps.at({key, members.back()});
    }
    std::sort(members.begin(), members.end());
    asked_.emplace_back(key, std::move(members));
  }
  void done(std::int64_t rank, const OpTimes& times) override { times_[own(rank)].push_back(times); }

  bool ascending() const { return ascending_; }  // members were always given in ascending order
  // Most ops that one rank had pulled and not yet reported, the one being pulled included.
  std::size_t most_unreported() const { return most_unreported_; }
  Outcome outcome(RunResult result) {
    RunResult renamed = result;
    for (std::size_t r = 0; r < label_.size(); ++r) renamed.finish_ps[label_[r]] = result.finish_ps[r];
    std::sort(asked_.begin(), asked_.end());
    return {times_, std::move(renamed), asked_};
  }

  static std::vector<std::size_t> identity(std::size_t ranks) {
    std::vector<std::size_t> out(ranks);
    std::iota(out.begin(), out.end(), std::size_t{0});
    return out;
  }

 private:
  std::size_t own(std::int64_t rank) const { return label_[static_cast<std::size_t>(rank)]; }

  const Program& program_;
  std::vector<std::size_t> label_;
  std::vector<std::size_t> next_;
  std::vector<std::vector<OpTimes>> times_;
  std::vector<std::pair<std::int64_t, std::vector<std::int64_t>>> asked_;
  bool ascending_ = true;
  std::size_t most_unreported_ = 0;
};

inline Outcome max_plus(const Program& program) {
  ProgramInMemory source(program);
  RunResult result = run_max_plus(source);
  return source.outcome(std::move(result));
}
inline Outcome events(const Program& program) {
  ProgramInMemory source(program);
  RunResult result = run_events(source);
  return source.outcome(std::move(result));
}

inline bool equal(const OpTimes& a, const OpTimes& b) {
  return a.issued_ps == b.issued_ps && a.streams_ps == b.streams_ps && a.ready_ps == b.ready_ps &&
         a.start_ps == b.start_ps && a.end_ps == b.end_ps;
}
inline bool equal(const Outcome& a, const Outcome& b) {
  if (a.times.size() != b.times.size()) return false;
  for (std::size_t r = 0; r < a.times.size(); ++r) {
    if (!std::equal(a.times[r].begin(), a.times[r].end(), b.times[r].begin(), b.times[r].end(),
                    [](const OpTimes& x, const OpTimes& y) { return equal(x, y); })) {
      return false;
    }
  }
  return a.result.finish_ps == b.result.finish_ps && a.result.makespan_ps == b.result.makespan_ps &&
         a.result.ops == b.result.ops && a.asked == b.asked;
}

}  // namespace moeplan::engine
