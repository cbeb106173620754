#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"

// Logs of collective benchmarks (docs/measurements.md): nccl-tests and rccl-tests of any age, tables of torch's
// all_reduce_bench, HCCL's performance test.
namespace moeplan::measurements {

// One timed size.
struct CollectiveRow {
  std::string collective;  // as nccl-tests calls it: all_reduce, all_gather, reduce_scatter, alltoall, sendrecv, ...
  std::int64_t ranks = 0;
  std::int64_t nodes = 0;  // 0: the log does not say
  std::string gpu;         // as the log calls it; empty: it does not say
  double size_bytes = 0;   // the whole buffer: of all-gather and reduce-scatter the total over ranks
  double time_s = 0;       // out of place; in place where only that was measured
  base::Where where;
};

// What a user states about a log; each counts only where the log itself is silent.
struct Stated {
  std::string collective, gpu;
  std::int64_t ranks = 0, nodes = 0;  // 0: not stated
};

struct CollectiveLog {
  std::vector<CollectiveRow> rows;     // in order of lines
  std::vector<base::Fault> set_aside;  // rows that were not taken, and why: cut, mixed, wrong results
};

// Never throws for what stands in the text; a text without any row has none. `file` is how places call it; a
// collective that the log does not name is taken from it.
CollectiveLog read_nccl_log(std::string_view text, const std::string& file, const Stated& stated);

}  // namespace moeplan::measurements
