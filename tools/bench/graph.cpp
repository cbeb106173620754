#include "graph.h"

#include <algorithm>

namespace moeplan::bench {

namespace {

std::uint64_t next(std::uint64_t& state) {  // xorshift64
  state ^= state << 13;
  state ^= state >> 7;
  return state ^= state << 17;
}

}  // namespace

Graph::Graph(std::int64_t ops) : before_(static_cast<std::size_t>(ops)) {
  std::uint64_t state = 88172645463325252U;
  for (std::int64_t i = 0; i < ops; ++i) {
    const auto reach = static_cast<std::uint64_t>(std::clamp<std::int64_t>(i, 1, kReach));
    const std::uint64_t draw = next(state);
    Before& before = before_[static_cast<std::size_t>(i)];
    before.near = static_cast<std::uint16_t>(i % 8 == 0 ? draw % reach : 0);
    before.far = static_cast<std::uint16_t>((draw >> 32) % reach);
  }
}

std::vector<std::uint32_t> Graph::durations(std::size_t lanes) const {
  std::vector<std::uint32_t> duration_ps(before_.size() * lanes);
  std::uint64_t state = 1442695040888963407U;
  for (std::uint32_t& duration : duration_ps) duration = static_cast<std::uint32_t>(next(state) % 1'000'000);
  return duration_ps;
}

template <std::size_t Lanes>
std::int64_t Graph::makespan_ps(const std::vector<std::uint32_t>& duration_ps,
                                std::vector<std::int64_t>& end_ps) const {
  const std::size_t ops = before_.size();
  end_ps.resize(ops * Lanes);
  std::int64_t* end = end_ps.data();
  std::int64_t latest_ps[Lanes] = {};
  for (std::size_t lane = 0; lane < Lanes; ++lane) end[lane] = duration_ps[lane];
  for (std::size_t i = 1; i < ops; ++i) {
    const std::int64_t* near = end + (i - 1 - before_[i].near) * Lanes;
    const std::int64_t* far = end + (i - 1 - before_[i].far) * Lanes;
    for (std::size_t lane = 0; lane < Lanes; ++lane) {
      const std::int64_t at_ps = std::max(near[lane], far[lane]) + duration_ps[i * Lanes + lane];
      end[i * Lanes + lane] = at_ps;
      latest_ps[lane] = std::max(latest_ps[lane], at_ps);
    }
  }
  return *std::max_element(latest_ps, latest_ps + Lanes);
}

template std::int64_t Graph::makespan_ps<1>(const std::vector<std::uint32_t>&, std::vector<std::int64_t>&) const;
template std::int64_t Graph::makespan_ps<4>(const std::vector<std::uint32_t>&, std::vector<std::int64_t>&) const;

}  // namespace moeplan::bench
