#include "search/reserved_ranks.h"

#include <algorithm>
#include <numeric>
#include <string>

#include "base/check.h"
#include "base/parallel.h"
#include "memory/static_tensors.h"

namespace moeplan::search {

namespace {

bool larger(const memory::AliveTensor& a, const memory::AliveTensor& b) { return a.bytes > b.bytes; }

constexpr std::int64_t kIterations = 3;  // from loading on: moments appear in the first, the second reuses their holes

// PyTorch counts the blocks that it handed out as allocated, whole: a rest too small to be split off (up to 1 MiB in
// the large pool) goes with its block. The walk over tensors counts what was asked for, rounded to 512 B; and it does
// not see that loading may hold more than any iteration.
void count_blocks(memory::RankMemory& rank, std::vector<memory::AliveTensor>& alive, const memory::Reserved& reserved,
                  const plan::Plan& plan) {
  rank.phase_peak_bytes = reserved.phase_allocated_bytes;
  const std::int64_t loading = reserved.phase_allocated_bytes[static_cast<std::size_t>(memory::Phase::load)];
  if (loading > reserved.allocated_peak_bytes) {
    rank.peak = memory::Peak{};
    rank.peak.by_kind = memory::load_peak(plan, rank.rank);
    rank.peak.allocated_bytes = std::accumulate(rank.peak.by_kind.begin(), rank.peak.by_kind.end(), std::int64_t{0});
    alive.clear();
    for (std::size_t kind = 0; kind < plan::kTensorKinds; ++kind)
      if (const std::int64_t bytes = rank.peak.by_kind[kind]; bytes > 0) {
        const auto name = plan::tensor_kind_name(static_cast<plan::TensorKind>(kind));
        alive.push_back({std::string(name) + ", while loading", static_cast<plan::TensorKind>(kind), bytes, 1});
      }
    std::stable_sort(alive.begin(), alive.end(), larger);
  }
  const std::int64_t tails = std::max(loading, reserved.allocated_peak_bytes) - rank.peak.allocated_bytes;
  if (tails <= 0) return;
  rank.peak.allocated_bytes += tails;
  rank.peak.by_kind[static_cast<std::size_t>(plan::TensorKind::block_tails)] = tails;
  const memory::AliveTensor row{"tails of blocks, too small to split off", plan::TensorKind::block_tails, tails, 1};
  alive.insert(std::upper_bound(alive.begin(), alive.end(), row, larger), row);
}

}  // namespace

std::int64_t ReservedRanks::add(const plan::Plan& plan, const std::vector<memory::RankMemory>& ranks, int threads) {
  std::vector<const memory::RankMemory*> highest(static_cast<std::size_t>(plan.scenario->layout.pp), nullptr);
  for (const memory::RankMemory& rank : ranks) {
    const memory::RankMemory*& best = highest[static_cast<std::size_t>(rank.stage)];
    if (best == nullptr || rank.peak.allocated_bytes > best->peak.allocated_bytes) best = &rank;
  }
  for (const std::int64_t rank : also_) highest.push_back(&ranks[static_cast<std::size_t>(rank)]);
  for (const memory::RankMemory* rank : highest) {
    const auto place = std::lower_bound(followed_.begin(), followed_.end(), rank->rank,
                                        [](const Followed& f, std::int64_t id) { return f.best.rank < id; });
    if (place != followed_.end() && place->best.rank == rank->rank) continue;
    followed_.insert(place,
                     Followed{memory::ReservedReplay(plan, rank->rank, memory::allocator_settings(plan, rank->rank)),
                              memory::RankMemory{*rank}, memory::alive_at_peak(plan, *rank), 0});
  }
  base::parallel_for(followed_.size(), threads, [&](std::size_t i) {
    Followed& one = followed_[i];
    const memory::RankMemory& now = ranks[static_cast<std::size_t>(one.best.rank)];
    if (now.peak.allocated_bytes > one.best.peak.allocated_bytes) {
      one.best = now;
      one.alive = memory::alive_at_peak(plan, now);
    }
    one.highest_bytes = one.replay.run(plan);
  });
  std::int64_t device = 0;
  for (const Followed& one : followed_) device = std::max(device, one.highest_bytes + one.best.outside_bytes);
  return device;
}

void ReservedRanks::finish(const plan::Plan& plan, int threads) {
  base::parallel_for(followed_.size(), threads, [&](std::size_t i) {
    Followed& one = followed_[i];
    while (one.replay.iterations() < kIterations) one.highest_bytes = one.replay.repeat(plan);
    const memory::Reserved reserved = one.replay.result();
    one.best.reserved_bytes = reserved.peak_bytes;
    one.best.phase_reserved_bytes = reserved.phase_reserved_bytes;
    one.best.retries = reserved.retries;
    count_blocks(one.best, one.alive, reserved, plan);
  });
}

const ReservedRanks::Followed& ReservedRanks::worst() const {
  MOEPLAN_CHECK(!followed_.empty(), "the worst rank of no iteration");
  const Followed* worst = &followed_.front();
  for (const Followed& one : followed_)
    if (one.best.device_bytes() > worst->best.device_bytes()) worst = &one;
  return *worst;
}

std::vector<memory::AllocationFailure> ReservedRanks::failures() const {
  std::vector<memory::AllocationFailure> list;
  for (const Followed& one : followed_)
    if (const auto result = one.replay.result(); result.failure) list.push_back(*result.failure);
  return list;
}

}  // namespace moeplan::search
