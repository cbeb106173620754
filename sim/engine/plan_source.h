#pragma once
#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "engine/op_costs.h"
#include "engine/picoseconds.h"
#include "engine/step.h"
#include "plan/plan.h"

namespace moeplan::engine {

// Streams a plan's programs to the engine: durations from the cost models, rendezvous from the groups, attribution of
// what comes back.
class PlanSource : public ProgramSource {
 public:
  // Runs the ranks that stand for all (plan.fold); its numbers of ranks count those.
  explicit PlanSource(const plan::Plan& plan, const ExchangeFactors* factors = nullptr);
  ~PlanSource() override;
  std::int64_t rank_of(std::int64_t standing) const { return standing_[static_cast<std::size_t>(standing)]; }
  std::int64_t standing_of(std::int64_t rank) const;
  std::int64_t ranks() const override;
  bool next(std::int64_t standing, TimedOp& op) override;
  void rendezvous_durations(std::int64_t key, std::span<const std::int64_t> ranks,
                            std::span<std::int64_t> duration_ps) override;
  void done(std::int64_t standing, const OpTimes& times) override;
  const PartsPs& parts_of(std::int64_t standing) const { return states_[static_cast<std::size_t>(standing)].parts; }
  // End of the rank's last op that a next one would wait for.
  std::int64_t clock_ps(std::int64_t standing) const { return states_[static_cast<std::size_t>(standing)].clock_ps; }
  // Called with the times of every op, those of a rank in program order.
  using Watcher = std::function<void(std::int64_t standing, const plan::Op& op, const OpTimes& times)>;
  void watch(Watcher watcher) { watcher_ = std::move(watcher); }
  // Times of every op of one of them are added to `times`, in program order.
  void record(std::int64_t standing, std::vector<OpTimes>* times) {
    recorded_ = standing;
    times_ = times;
  }

 private:
  struct Cursor {
    std::size_t visit = 0, op = 0;
  };
  struct State {
    Cursor next, done;                                              // the engine may read ahead of what is done
    std::array<std::int64_t, topology::kAllGroupKinds> sequence{};  // collectives issued so far, by group kind
    std::array<std::int64_t, 8> transfers{};                        // sends and receives so far, by what and which way
    std::int64_t clock_ps = 0;                                      // end of the last op that the next one waits for
    // Running times of each lane's exchanges beside another microbatch, since an op of the lane last waited.
    std::array<std::int64_t, 3> exchange_run_ps{};
    std::int64_t gathered_run_ps = 0, scattered_run_ps = 0;  // of tensor-parallel exchanges beside products
    std::int64_t received_run_ps = 0;  // of pipeline transfers posted ahead, since an op last waited for one
    PartsPs parts;
  };
  // What a rendezvous needs to know when its last member arrives; made by the first.
  struct Meeting {
    const plan::Op* op = nullptr;
    const plan::Visit* visit = nullptr;
    std::int64_t rank = 0;
  };
  struct Facts;
  const std::vector<Facts>& facts_of(std::int32_t block, schedule::Direction direction);
  const Facts* find(std::int64_t rank, Cursor& cursor, const plan::Visit** visit);
  void share_multiprocessors(const plan::Op& op, TimedOp& out) const;
  void meet(const plan::Op& op, const plan::Visit& visit, std::int64_t standing, TimedOp& out);
  static std::int64_t all_exchanges_ps(const State& state);
  void attribute(State& state, const plan::Op& op, plan::Lane lane, const OpTimes& times);

  const plan::Plan& plan_;
  std::vector<std::int64_t> standing_;
  OpCosts costs_;
  std::vector<std::vector<Facts>> facts_;  // [3 * block + direction]
  std::vector<State> states_;
  std::unordered_map<std::int64_t, Meeting> meetings_;
  std::int64_t recorded_ = -1;
  std::vector<OpTimes>* times_ = nullptr;
  Watcher watcher_;
};

}  // namespace moeplan::engine
