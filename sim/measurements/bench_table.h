#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "measurements/rank_count.h"

// Tables of benchmarks other than nccl-tests that stand in a log.
namespace moeplan::measurements {

struct BenchTable {
  std::string collective, gpu;
  std::int64_t ranks = 0, per_node = 0;  // 0: not said
  std::vector<TimedLine> lines;
  std::vector<std::pair<int, std::string>> set_aside;  // line, why
};

// torch's all_reduce_bench: "|  32KiB |  1.44GBps |  0.82GBps |" under "| payload | busbw | algbw |" in any order. The
// time is the payload over the algorithm bandwidth.
class MarkdownTable : public BenchTable {
 public:
  bool line(std::string_view text, int number);  // whether the line belongs to such a table

 private:
  int payload_ = -1, busbw_ = -1, algbw_ = -1;  // columns
};

// HCCL's test: data_size(Bytes) aveg_time(us) alg_bandwidth(GB/s) check_result.
class HcclTable : public BenchTable {
 public:
  bool line(std::string_view text, int number);
  void launched(const std::string& program, std::int64_t processes, std::int64_t on_a_node);

 private:
  bool open_ = false;
};

}  // namespace moeplan::measurements
