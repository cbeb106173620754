#include "random_program.h"

#include <algorithm>

#include "base/random.h"

namespace moeplan::engine {
namespace {

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : random_(seed) {}
  // In [0, sides).
  std::int64_t roll(std::int64_t sides) {
    return static_cast<std::int64_t>(random_.bits(0, index_++) % static_cast<std::uint64_t>(sides));
  }
  bool one_in(std::int64_t n) { return roll(n) == 0; }

 private:
  base::Random random_;
  std::uint64_t index_ = 0;
};

TimedOp random_op(Dice& dice, std::int64_t streams, bool syncs) {
  // One roll a statement: compilers evaluate arguments in different orders.
  const int stream = static_cast<int>(dice.roll(streams));
  TimedOp op = work(stream, dice.one_in(8) ? 0 : dice.roll(50));
  op.issue_ps = dice.one_in(3) ? dice.roll(20) : 0;
  while (dice.one_in(2)) op = after(op, static_cast<int>(dice.roll(streams)));
  if (syncs && dice.one_in(12)) op = synced(op, dice.roll(10));
  return op;
}

bool may_swap(const TimedOp& a, const TimedOp& b) {
  const auto waits = [](const TimedOp& op, const TimedOp& other) { return (op.wait_streams >> other.stream & 1) != 0; };
  return a.stream != b.stream && !a.host_sync && !b.host_sync && !waits(a, b) && !waits(b, a);
}

}  // namespace

Program random_program(std::uint64_t seed) {
  Dice dice(seed);
  const std::int64_t ranks = 2 + dice.roll(7);
  const std::int64_t streams = dice.one_in(6) ? kMaxStreams : 1 + dice.roll(6);
  const bool syncs = dice.one_in(2);
  const std::int64_t rendezvous_in = 2 + dice.roll(6);
  const std::int64_t length = ranks * dice.roll(200);

  Program program;
  program.ranks.resize(static_cast<std::size_t>(ranks));
  std::int64_t dealt = 0;
  for (std::int64_t key = 0; dealt < length; ++key) {
    if (!dice.one_in(rendezvous_in)) {
      program.ranks[static_cast<std::size_t>(dice.roll(ranks))].push_back(random_op(dice, streams, syncs));
      ++dealt;
      continue;
    }
    std::vector<std::int64_t> members;
    for (std::int64_t r = 0; r < ranks; ++r) {
      if (dice.one_in(2)) members.push_back(r);
    }
    for (const std::int64_t member : members) {
      TimedOp op = random_op(dice, streams, syncs);
      op.rendezvous = 17 * key;
      op.members = static_cast<std::int32_t>(members.size());
      program.ranks[static_cast<std::size_t>(member)].push_back(op);
      program.met_ps[{op.rendezvous, member}] = dice.roll(40);
      ++dealt;
    }
  }
  for (std::vector<TimedOp>& ops : program.ranks) {
    const std::int64_t swaps = dice.one_in(3) ? 0 : 20 * static_cast<std::int64_t>(ops.size());
    for (std::int64_t i = 0; ops.size() >= 2 && i < swaps; ++i) {
      const std::size_t at = static_cast<std::size_t>(dice.roll(static_cast<std::int64_t>(ops.size()) - 1));
      if (may_swap(ops[at], ops[at + 1])) std::swap(ops[at], ops[at + 1]);
    }
  }
  return program;
}

Program random_shared_program(std::uint64_t seed) {
  Program program = random_program(seed);
  Dice dice(seed + 1000000);
  for (std::vector<TimedOp>& ops : program.ranks) {
    for (TimedOp& op : ops) {
      if (dice.one_in(3)) continue;
      if (op.stream == 0 && op.rendezvous < 0) op.out_of = 7;
      if (op.stream != 0) op.holds = static_cast<std::int16_t>(1 + dice.roll(8));  // some take all, alone or together
    }
  }
  return program;
}

}  // namespace moeplan::engine
