#include "measurements/rank_count.h"

#include <fmt/core.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

namespace moeplan::measurements {
namespace {

constexpr std::int64_t kMostCountedRanks = 1'000'000;

// Whole ranks from low to high that a line's bandwidths allow; every count where they tell nothing.
struct Range {
  std::int64_t low = 2, high = kMostCountedRanks;
};

int factor_of(const std::string& collective) {  // passes over the wire at many ranks; 0: the ratio is 1 at any count
  if (collective == "all_reduce") return 2;
  for (const char* chain : {"sendrecv", "broadcast", "reduce"}) {
    if (collective == chain) return 0;
  }
  return 1;
}

Range range_of(const Timing& timing, const std::string& collective) {
  Range range;
  const double passes = factor_of(collective);
  if (!timing.bandwidths || timing.algbw <= 0 || timing.busbw <= 0) return range;
  const double ratio = timing.busbw / timing.algbw;
  const double rounding = ratio * timing.half_digit * (1 / timing.busbw + 1 / timing.algbw) * 1.05 + 1e-9;
  if (passes == 0) {
    if (std::fabs(ratio - 1) > rounding) range.high = 0;  // no count at all
    return range;
  }
  // passes (n - 1) / n = ratio, so n = passes / (passes - ratio)
  const double least = passes - (ratio - rounding), most = passes - (ratio + rounding);
  if (least <= 0) {
    range.high = 0;
    return range;
  }
  range.low =
      std::max(range.low, static_cast<std::int64_t>(std::ceil(std::min(passes / least, 2.0 * kMostCountedRanks))));
  if (most > 0)
    range.high =
        std::min(range.high, static_cast<std::int64_t>(std::floor(std::min(passes / most, 1.0 * kMostCountedRanks))));
  return range;
}

// What the rank lines say: ranks where all of them are there, else 0; hosts and the most ranks on one.
struct Listed {
  std::int64_t ranks = 0, least = 0, nodes = 0, per_host = 0;
  std::string gpu;
  bool several_gpus = false;
};

Listed listed(const Job& job) {
  Listed result;
  std::map<std::int64_t, std::int64_t> times;  // how often each rank stands there: one a process that has its own job
  std::map<std::string, std::int64_t> hosts;
  std::set<std::string> gpus;
  for (const RankLine& line : job.rank_lines) {
    ++times[line.rank];
    if (!line.host.empty()) ++hosts[line.host];
    if (!line.gpu.empty()) gpus.insert(line.gpu);
  }
  if (gpus.size() == 1) result.gpu = *gpus.begin();
  result.several_gpus = gpus.size() > 1;
  if (times.empty()) return result;
  std::int64_t jobs = 0;
  for (const auto& [rank, count] : times) jobs = std::max(jobs, count);
  result.least = times.rbegin()->first + 1;
  for (const auto& [host, count] : hosts) result.per_host = std::max(result.per_host, count);
  const bool whole = !job.ranks_cut && static_cast<std::int64_t>(times.size()) == result.least;
  if (!whole) return result;
  result.ranks = result.least;
  if (jobs > 1) result.per_host = std::min(result.per_host, result.ranks);
  const auto count = static_cast<std::int64_t>(hosts.size());
  result.nodes = (count + jobs - 1) / jobs;
  return result;
}

void all_aside(const std::vector<TimedLine>& lines, const std::string& why, Resolved& resolved) {
  for (const TimedLine& line : lines) resolved.set_aside.emplace_back(line.line, why);
}

}  // namespace

Resolved resolve_job(const Job& job, const std::vector<TimedLine>& lines, std::int64_t stated_ranks,
                     std::int64_t stated_nodes) {
  Resolved resolved;
  const Listed list = listed(job);
  resolved.gpu = job.gpu.empty() ? list.gpu : job.gpu;
  if (list.several_gpus) {
    all_aside(lines, "the rank lines name several kinds of GPU", resolved);
    return resolved;
  }
  // The narrowest ranges first: what contradicts them is the odd one out.
  std::vector<std::pair<Range, int>> ranges;
  for (const TimedLine& line : lines) ranges.emplace_back(range_of(line.timing, job.collective), line.line);
  std::stable_sort(ranges.begin(), ranges.end(), [](const auto& a, const auto& b) {
    return a.first.high - a.first.low < b.first.high - b.first.low;
  });
  Range all;
  if (list.ranks > 0) all = {list.ranks, list.ranks};
  all.low = std::max(all.low, list.least);
  bool told = false;  // by bandwidths
  for (const auto& [range, line] : ranges) {
    const Range both{std::max(all.low, range.low), std::min(all.high, range.high)};
    if (both.low <= both.high) {
      told = told || range.high < kMostCountedRanks;
      all = both;
      continue;
    }
    const std::string of = range.high < range.low    ? std::string("no count of ranks")
                           : range.low == range.high ? fmt::format("{} ranks", range.low)
                                                     : fmt::format("{} to {} ranks", range.low, range.high);
    const std::string here = all.low == all.high ? fmt::format("{}", all.low) : fmt::format("{} or more", all.low);
    resolved.set_aside.emplace_back(
        line, fmt::format("bus over algorithm bandwidth belongs to {} of {}, not to the {} of this table", of,
                          job.collective, here));
  }
  if (all.low == all.high) {
    resolved.ranks = all.low;
  } else if (job.launched >= all.low && job.launched <= all.high) {
    resolved.ranks = job.launched;
  } else if (stated_ranks >= all.low && stated_ranks <= all.high) {
    resolved.ranks = stated_ranks;
  }
  if (resolved.ranks == 0) {
    resolved.set_aside.clear();
    const std::string between = told ? fmt::format("between {} and {}", all.low, all.high) : std::string("any number");
    all_aside(lines, fmt::format("the log does not say on how many ranks it ran ({}); state it with --ranks", between),
              resolved);
    return resolved;
  }
  if (stated_ranks > 0 && stated_ranks != resolved.ranks) {
    all_aside(lines, fmt::format("the log ran on {} ranks, not on {} as --ranks says", resolved.ranks, stated_ranks),
              resolved);
    return resolved;
  }
  if (list.nodes > 0) {
    resolved.nodes = list.nodes;
  } else if (list.per_host > 1) {
    resolved.nodes = (resolved.ranks + list.per_host - 1) / list.per_host;
  } else if (job.launched_per_node > 0) {
    resolved.nodes = (resolved.ranks + job.launched_per_node - 1) / job.launched_per_node;
  } else {
    resolved.nodes = stated_nodes;
  }
  if (stated_nodes > 0 && resolved.nodes > 0 && stated_nodes != resolved.nodes)
    all_aside(lines, fmt::format("the log ran on {} nodes, not on {} as --nodes says", resolved.nodes, stated_nodes),
              resolved);
  return resolved;
}

}  // namespace moeplan::measurements
