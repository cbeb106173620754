#pragma once
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "measurements/log_line.h"

// How many ranks and nodes a benchmark ran on: from its rank lines, and from bus over algorithm bandwidth, which is
// 2 (n - 1) / n for all-reduce, (n - 1) / n for what gathers or scatters, and 1 for chains.
namespace moeplan::measurements {

struct TimedLine {
  Timing timing;
  int line = 0;
};

struct Job {
  std::string collective, gpu;
  std::int64_t launched = 0, launched_per_node = 0;  // processes of the launch line; 0: not known
  bool ranks_cut = false;                            // the log leaves out rank lines
  std::vector<RankLine> rank_lines;
};

struct Resolved {
  std::int64_t ranks = 0, nodes = 0;  // nodes 0: not known
  std::string gpu;
  std::vector<std::pair<int, std::string>> set_aside;  // line, why
};

// `stated_*`: of the user, where the log is silent; 0: nothing stated. Lines that contradict the count, or all where
// none can be told, are set aside.
Resolved resolve_job(const Job& job, const std::vector<TimedLine>& lines, std::int64_t stated_ranks,
                     std::int64_t stated_nodes);

}  // namespace moeplan::measurements
