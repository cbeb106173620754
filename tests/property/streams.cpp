#include "streams.h"

#include <algorithm>
#include <numeric>

namespace moeplan::property {

StreamTimes::StreamTimes(const plan::Plan& plan)
    : engine::PlanSource(plan), ranks_(static_cast<std::size_t>(plan.scenario->layout.world)) {}

bool StreamTimes::next(std::int64_t rank, engine::TimedOp& op) {
  if (!engine::PlanSource::next(rank, op)) return false;
  at(rank).ahead.push_back(op);
  return true;
}

void StreamTimes::done(std::int64_t rank, const engine::OpTimes& times) {
  engine::PlanSource::done(rank, times);
  Rank& r = at(rank);
  const engine::TimedOp op = r.ahead.front();
  r.ahead.pop_front();
  const std::int64_t duration = times.end_ps - times.start_ps;
  std::int64_t begin = r.chain[op.stream];
  for (std::size_t s = 0; s < r.chain.size(); ++s) {
    if ((op.wait_streams >> s & 1U) != 0) begin = std::max(begin, r.chain[s]);
  }
  r.chain[op.stream] = begin + duration;
  r.busy[op.stream] += duration;
}

std::int64_t StreamTimes::all_ps(std::int64_t rank) const {
  const auto& busy = at(rank).busy;
  return std::accumulate(busy.begin(), busy.end(), std::int64_t{0});
}

std::int64_t StreamTimes::chain_ps(std::int64_t rank) const {
  const auto& chain = at(rank).chain;
  return *std::max_element(chain.begin(), chain.end());
}

}  // namespace moeplan::property
